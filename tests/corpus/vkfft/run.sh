#!/usr/bin/env bash
# Fourier transforms by VkFFT (Debian's libvkfft-dev), an application that generates its kernels at
# run time: powers of several radices, primes, planes and batches, forward and back.
#
#   tests/corpus/run.sh vkfft [--no-install] [--build DIR]
#
# VkFFT is unchanged and speaks OpenCL; its calls end at kcache (opencl_over_kcache.h). Every result is
# compared with a transform by the definition. The last line is
#   summary: plans=… failed=… kernels=… launches=… seconds=…
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

install=1 build=build/release
while [ $# -gt 0 ]; do
  case $1 in
    --no-install) install=0 ;;
    --build) build=$2; shift ;;
    -h|--help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) echo "run.sh: unknown argument '$1'; see --help" >&2; exit 2 ;;
  esac
  shift
done
[ $install -eq 0 ] || deploy/install-deps.sh build runtime test
# Also where the build folder is older than the package.
cmake --preset release >/dev/null
cmake --build "$build" --parallel "$(nproc)" \
  --target kcached kcache-launch kcache-backend-opencl corpus_vkfft >/dev/null
KCACHE_BINARY_DIR=$PWD/$build exec "$build/tests/corpus/vkfft/corpus_vkfft"
