#!/usr/bin/env bash
# Collects what tests/gpu/run.sh needs on a machine that has a GPU but not kcache's build dependencies:
# the programs, built here and stripped, and the shared libraries they need besides the C library.
#
#   tests/gpu/bundle.sh DIRECTORY [BUILD_DIRECTORY]
#
# HIP's backend has NVIDIA's platform in it where CUDA 12's headers can be had (deploy/fetch-cuda12-headers.sh). It
# is built in a directory of its own beside BUILD_DIRECTORY, which stays configured as it is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=${1:?usage: tests/gpu/bundle.sh DIRECTORY [BUILD_DIRECTORY]} build=${2:-build/release}
programs=(daemon/kcached daemon/kcache-launch client/ctl/kcachectl tests/conformance/kcache_conformance
          tests/bench/kcache-bench tests/gpu/kcache-gpu-figures backends/cuda/cuda_context_test)
for backend in cuda opencl vulkan fake; do programs+=("backends/$backend/kcache-backend-$backend"); done
hip_programs=(backends/hip/kcache-backend-hip backends/hip/hip_context_test)

[ -e "$build/build.ninja" ] || cmake --preset release -B "$build" >/dev/null
hip_build=$build
if grep -q '^KCACHE_HIP_NVIDIA:BOOL=ON' "$build/CMakeCache.txt"; then
  :
elif options=$(deploy/fetch-cuda12-headers.sh | tail -n 1); then
  hip_build=$build-hip-nvidia
  read -ra options <<<"$options"
  cmake --preset release -B "$hip_build" "${options[@]}" >/dev/null
else
  echo "bundle: HIP without NVIDIA's platform, for want of CUDA 12's headers" >&2
fi
targets() { for program in "$@"; do basename "$program"; done; }
# shellcheck disable=SC2046  # one word a target
cmake --build "$build" --parallel "$(nproc)" --target $(targets "${programs[@]}")
# shellcheck disable=SC2046
cmake --build "$hip_build" --parallel "$(nproc)" --target $(targets "${hip_programs[@]}")

rm -rf "$out"
mkdir -p "$out/bin" "$out/lib"
collect() {  # BUILD_DIRECTORY PROGRAM
  mkdir -p "$out/bin/$(dirname "$2")"
  strip -o "$out/bin/$2" "$1/$2"
}
for program in "${programs[@]}"; do collect "$build" "$program"; done
for program in "${hip_programs[@]}"; do collect "$hip_build" "$program"; done
# The C library and the loader are the target's own; drivers are opened at run time there.
find "$out/bin" -type f -exec ldd {} \; | awk '/=> \// {print $3}' | sort -u |
  grep -vE '/(libc|libm|libpthread|libdl|librt|ld-linux[^/]*|libresolv)\.so' |
  while read -r library; do cp -L "$library" "$out/lib/"; done
# Backend programs get a clean environment, so the libraries are found by where the programs are.
while read -r program; do
  relative=$(realpath --relative-to="$(dirname "$program")" "$out/lib")
  patchelf --set-rpath "\$ORIGIN/$relative" "$program"
done < <(find "$out/bin" -type f)
find "$out/lib" -type f -exec patchelf --set-rpath '$ORIGIN' {} \;
cp tests/gpu/run.sh "$out/run.sh"
du -sh "$out"
