#!/usr/bin/env bash
# Collects what tests/gpu/run.sh needs on a machine that has a GPU but not kcache's build dependencies:
# the built programs, stripped, and the shared libraries they need besides the C library.
#
#   tests/gpu/bundle.sh DIRECTORY [BUILD_DIRECTORY]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=${1:?usage: tests/gpu/bundle.sh DIRECTORY [BUILD_DIRECTORY]} build=${2:-build/release}
rm -rf "$out"
mkdir -p "$out/bin" "$out/lib"
programs=(daemon/kcached daemon/kcache-launch client/ctl/kcachectl tests/conformance/kcache_conformance
          tests/bench/kcache-bench tests/gpu/kcache-gpu-figures)
for backend in cuda hip opencl vulkan fake; do programs+=("backends/$backend/kcache-backend-$backend"); done
for device_test in backends/cuda/cuda_context_test backends/hip/hip_context_test; do programs+=("$device_test"); done
for program in "${programs[@]}"; do
  [ -x "$build/$program" ] || { echo "bundle: no $program (not built)"; continue; }
  mkdir -p "$out/bin/$(dirname "$program")"
  strip -o "$out/bin/$program" "$build/$program"
done
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
