#!/usr/bin/env bash
# Fetches NVIDIA's runtime compiler, its linker and the headers that kernels include, for a machine without a
# CUDA toolkit: wheels of the Python registry, unpacked, nothing installed.
#
#   deploy/fetch-nvrtc.sh [DIRECTORY]       (build/nvrtc when none is named)
#
# KCACHE_CUDA_TOOLKIT=DIRECTORY makes the backends use it. Does nothing when it is there already.
# About 140 MB are downloaded. Needs python3 with pip.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
target=${1:-$here/../build/nvrtc}
release=13.0
packages=(nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cuda-cccl nvidia-cuda-crt nvidia-nvjitlink)

fail() { echo "fetch-nvrtc: $*" >&2; exit 1; }

done_mark="$target/.release-$release-1"
if [ -e "$done_mark" ]; then
  echo "fetch-nvrtc: NVRTC $release is in $target"
  exit 0
fi
python3 -m pip --version >/dev/null 2>&1 || fail "python3 has no pip (Debian: python3-pip)"
command -v unzip >/dev/null || fail "unzip is missing"

wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
  --dest "$wheels" "${packages[@]/%/==$release.*}" ||
  fail "pip could not download ${packages[*]} $release; is a Python registry reachable?"
mkdir -p "$target"
for wheel in "$wheels"/*.whl; do
  unzip -qo "$wheel" -d "$target"
done
touch "$done_mark"
echo "fetch-nvrtc: NVRTC $release is in $target"
