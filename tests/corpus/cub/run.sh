#!/usr/bin/env bash
# Compiles CUB's and libcu++'s block and warp algorithms, instantiated over types and sizes.
#
#   tests/corpus/cub/run.sh                 through the compile role of kcache-backend-cuda; no GPU
#   tests/corpus/cub/run.sh --daemon        through the kcached at $KCACHE_SOCKET, or one of its own; with
#                                           a CUDA device the programs are launched too and their
#                                           results compared
#   --architecture=sm_90a, --jobs=2         for what, and how many at a time
#
# Builds what it needs. NVRTC and its headers come from the toolkit, or from build/nvrtc, into which
# they are fetched when there is no toolkit. The last line is
# `summary: programs=… failures=… launched=…`; the exit status is 0 only when nothing failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

build=build/release
daemon=0
for argument in "$@"; do
  case $argument in
    --daemon) daemon=1 ;;
    -h|--help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
  esac
done

if [ ! -e /usr/local/cuda ] && ! ldconfig -p | grep -q 'libnvrtc\.so\.1[23]'; then
  deploy/fetch-nvrtc.sh build/nvrtc
fi
[ ! -d build/nvrtc ] || export KCACHE_CUDA_TOOLKIT="$PWD/build/nvrtc"

[ -e "$build/build.ninja" ] || cmake --preset release >/dev/null
if [ $daemon -eq 0 ]; then
  cmake --build "$build" --target corpus_cub kcache-backend-cuda >/dev/null
  exec "$build/tests/corpus/cub/corpus_cub" --backend="$build/backends/cuda/kcache-backend-cuda" "$@"
fi

cmake --build "$build" --target corpus_cub kcache-backend-cuda kcached >/dev/null
KCACHE_BINARY_DIR="$PWD/$build" exec "$build/tests/corpus/cub/corpus_cub" "$@"
