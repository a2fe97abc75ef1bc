#!/usr/bin/env bash
# Fourier transforms by VkFFT (Debian's libvkfft-dev), an application that generates its kernels at
# run time: powers of several radices, primes, planes and batches, forward and back.
#
#   tests/corpus/run.sh vkfft [--no-install] [--build DIR] [--daemon] [opencl] [vulkan] [cuda] [hip]
#
# VkFFT is unchanged; the calls of the API that it speaks end at kcache (*_over_kcache.h). All four when
# none is named. Over OpenCL and Vulkan every result is compared with a transform by the definition. Over
# CUDA (sm_90) and HIP (gfx90a, gfx1030) what it generates is compiled, through the backend's compile
# role; with --daemon through a daemon, and where there is a device, run and compared like the others.
#
# The last line is, for each API, what its program says (run.h):
#   summary: opencl_plans=… opencl_failed=… opencl_programs=… opencl_compiled=… opencl_launches=…
#            opencl_checked=… opencl_seconds=… vulkan_plans=… …
# and the exit status is 0 only when no plan failed and every API had its say.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

install=1 build=build/release daemon=0 apis=()
while [ $# -gt 0 ]; do
  case $1 in
    --no-install) install=0 ;;
    --build) build=$2; shift ;;
    --daemon) daemon=1 ;;
    opencl|vulkan|cuda|hip) apis+=("$1") ;;
    -h|--help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) echo "run.sh: unknown argument '$1'; see --help" >&2; exit 2 ;;
  esac
  shift
done
[ ${#apis[@]} -gt 0 ] || apis=(opencl vulkan cuda hip)

say() { printf '== %s\n' "$*"; }

[ $install -eq 0 ] || deploy/install-deps.sh build runtime test
case " ${apis[*]} " in
  *" cuda "*)
    if [ ! -e /usr/local/cuda ] && ! ldconfig -p | grep -q 'libnvrtc\.so\.1[23]'; then
      deploy/fetch-nvrtc.sh build/nvrtc
    fi ;;
esac
[ ! -d build/nvrtc ] || export KCACHE_CUDA_TOOLKIT="$PWD/build/nvrtc"

say "building"
# Also where the build folder is older than the package.
if [ -e "$build/build.ninja" ]; then cmake -S . -B "$build"; else cmake --preset release -B "$build"; fi >/dev/null
targets=(kcached kcache-launch)
for api in "${apis[@]}"; do targets+=("kcache-backend-$api" "corpus_vkfft_$api"); done
cmake --build "$build" --parallel "$(nproc)" --target "${targets[@]}" >/dev/null
export KCACHE_BINARY_DIR=$PWD/$build

output=$(mktemp)
trap 'rm -f "$output"' EXIT
summary= bad=0
for api in "${apis[@]}"; do
  arguments=()
  case $api in
    cuda|hip)
      if [ $daemon -eq 1 ]; then
        arguments=(--daemon)
      else
        arguments=(--backend="$build/backends/$api/kcache-backend-$api")
      fi ;;
  esac
  say "VkFFT over $api"
  "$build/tests/corpus/vkfft/corpus_vkfft_$api" "${arguments[@]}" | tee "$output" || bad=1
  line=$(tail -n 1 "$output")
  case $line in
    "summary: "*) for field in ${line#summary: }; do summary+=" ${api}_$field"; done ;;
    *) echo "corpus_vkfft_$api ended without a summary"; bad=1 ;;
  esac
done
echo "summary:$summary"
exit $bad
