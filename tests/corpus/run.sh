#!/usr/bin/env bash
# Real programs through a private daemon on real devices.
#
#   tests/corpus/run.sh [--no-install] [--build DIR] [--jobs N] [darktable] [piglit]
#   tests/corpus/run.sh cub|vkfft|vulkan [argument …] see tests/corpus/README.md
#
# darktable: every program and kernel that Debian's darktable ships, built with darktable's own options, one
#   completed launch each: in a first new process (everything is compiled), in a second one, and in one more
#   after the device was destroyed (a fresh device host).
# piglit: the OpenCL program tests of Debian's piglit, launched and compared with their expected results.
#
# --jobs: compile workers and test processes side by side (the number of processors).
#
# Both are fetched by package name into the build folder. What fails is tried again in plain OpenCL, without
# the daemon; the exit status is 0 only if everything that failed fails there alike and the second process
# took at most a fiftieth of the first one's time. The last line is
#   summary: programs=… kernels=… compiles=… failures=… first_s=… second_s=… ratio=… restart_s=… jit_in_host=…
#            piglit_files=… piglit_cases=… piglit_passed=… piglit_failed=… piglit_failed_alike=… piglit_skipped=…
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# The other families' corpora are scripts of their own, each with a summary of its own.
case ${1:-} in
  cub|vkfft|vulkan) exec "tests/corpus/$1/run.sh" "${@:2}" ;;
esac

install=1 build=build/release jobs=$(nproc) corpora=()
while [ $# -gt 0 ]; do
  case $1 in
    --no-install) install=0 ;;
    --build) build=$2; shift ;;
    --jobs) jobs=$2; shift ;;
    darktable|piglit) corpora+=("$1") ;;
    -h|--help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) echo "run.sh: unknown argument '$1'; see --help" >&2; exit 2 ;;
  esac
  shift
done
[ ${#corpora[@]} -gt 0 ] || corpora=(darktable piglit)

say() { printf '== %s\n' "$*"; }

if [ $install -eq 1 ]; then
  say "installing what is missing"
  deploy/install-deps.sh build runtime test
fi
say "building"
[ -e "$build/CMakeCache.txt" ] || cmake --preset release >/dev/null
cmake --build "$build" --parallel "$(nproc)" \
  --target kcached kcachectl kcache-launch kcache-backend-opencl corpus_darktable corpus_piglit

tests/corpus/fetch.sh "${corpora[@]}"
exec tests/corpus/opencl.sh --programs "$build" --data build/corpus --jobs "$jobs" "${corpora[@]}"
