#!/usr/bin/env bash
# Collects what tests/gpu/run.sh needs on a machine that has a GPU but not kcache's build dependencies:
# the programs, built here and stripped, the shared libraries they need besides the C library, and what the
# corpora run.
#
#   tests/gpu/bundle.sh DIRECTORY [BUILD_DIRECTORY] [--archive FILE.tar.xz]
#
# --archive: also one compressed file of it, to carry. Compiles run as another user there, who has to get into the
# folder in which it is unpacked:
#
#   mkdir -m 755 /tmp/kcache && tar -xf FILE.tar.xz -C /tmp/kcache && bash /tmp/kcache/run.sh --bundle /tmp/kcache
#
# HIP's backend has NVIDIA's platform in it where CUDA 12's headers can be had (deploy/fetch-cuda12-headers.sh). It
# is built in a directory of its own beside BUILD_DIRECTORY, which stays configured as it is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
usage='usage: tests/gpu/bundle.sh DIRECTORY [BUILD_DIRECTORY] [--archive FILE.tar.xz]'
archive= folders=()
while [ $# -gt 0 ]; do
  case $1 in
    --archive) archive=${2:?$usage}; shift ;;
    -*) echo "$usage" >&2; exit 2 ;;
    *) folders+=("$1") ;;
  esac
  shift
done
out=${folders[0]:?$usage} build=${folders[1]:-build/release}
programs=(daemon/kcached daemon/kcache-launch client/ctl/kcachectl tests/conformance/kcache_conformance
          tests/bench/kcache-bench tests/gpu/kcache-gpu-figures backends/cuda/cuda_context_test
          tests/corpus/corpus_darktable tests/corpus/corpus_piglit tests/corpus/cub/corpus_cub
          tests/corpus/vulkan/corpus_vulkan)
for backend in cuda opencl vulkan fake; do programs+=("backends/$backend/kcache-backend-$backend"); done
hip_programs=(backends/hip/kcache-backend-hip backends/hip/hip_context_test)

tests/corpus/fetch.sh darktable piglit vulkan
if [ -e "$build/build.ninja" ]; then cmake -S . -B "$build"; else cmake --preset release -B "$build"; fi >/dev/null
vkfft=$(tests/corpus/vkfft/programs.sh "$build")
for program in $vkfft; do programs+=("tests/corpus/vkfft/$program"); done
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
cp tests/gpu/run.sh tests/gpu/corpus_stage.sh "$out"
mkdir -p "$out/corpus/data"
cp tests/corpus/daemon.sh tests/corpus/opencl.sh "$out/corpus"
# Of the packages only what the programs read.
(cd build/corpus && find darktable/usr/share/darktable/kernels vulkan/record.tsv vulkan/shaders \
  piglit/usr/lib/*/piglit/tests/cl piglit/usr/lib/*/piglit/generated_tests/cl \
  -type f \( ! -path 'piglit/*' -o -name '*.cl' -o -name '*.h' \) -print0 | tar -c --null --files-from=-) |
  tar -x -C "$out/corpus/data"
du -sh "$out"
if [ -n "$archive" ]; then
  tar -c --owner=0 --group=0 -C "$out" . | xz -T0 -3 >"$archive"
  du -h "$archive"
fi
