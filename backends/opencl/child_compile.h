// One compile in a process of its own: this program, started again.
//
// The request and the reply are files in a directory of that compile alone, which is also the
// child's temporary directory and, with everything the driver left there, removed afterwards.
//
// Threads: CompileInChild: any; the child ends with the thread that started it. RunCompileChild:
// main.

#ifndef KCACHE_BACKENDS_OPENCL_CHILD_COMPILE_H_
#define KCACHE_BACKENDS_OPENCL_CHILD_COMPILE_H_

#include "absl/status/statusor.h"
#include "kcache/v1/backend.pb.h"

namespace kcache::backend::opencl {

// Waits for the child. Does not return when the child dies of a signal: see compiler.h.
absl::StatusOr<v1::Artifact> CompileInChild(const v1::CompileRequest& request);

// Whether this process is such a child, by its arguments: --compile-one REQUEST REPLY.
bool IsCompileChild(int argc, char** argv);

// What it does then. Returns the exit code: 0 when the reply is written, whatever it says.
int RunCompileChild(char** argv);

}  // namespace kcache::backend::opencl

#endif  // KCACHE_BACKENDS_OPENCL_CHILD_COMPILE_H_
