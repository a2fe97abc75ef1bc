#!/usr/bin/env python3
"""Stands in for glslc: appends what it is asked to compile to $KCACHE_RECORD, and compiles nothing.

One line a call: output name, source file, flags, defines; fields are separated by tabs, items by
the unit separator. The output file is made, empty, so that the generator goes on.
"""
import fcntl
import os
import sys

name, source, flags, defines = "", "", [], []
arguments = iter(sys.argv[1:])
for argument in arguments:
    if argument == "-o":
        output = next(arguments)
        name = os.path.basename(output).removesuffix(".spv")
        open(output, "wb").close()
    elif argument.startswith("-D"):
        defines.append(argument[2:])
    elif argument.startswith("-fshader-stage="):
        pass  # compute, all of them
    elif argument.startswith("-"):
        flags.append(argument)
    else:
        source = argument
line = "\t".join([name, source, "\x1f".join(flags), "\x1f".join(defines)]) + "\n"
with open(os.environ["KCACHE_RECORD"], "a", encoding="utf-8") as record:
    fcntl.flock(record, fcntl.LOCK_EX)
    record.write(line)
