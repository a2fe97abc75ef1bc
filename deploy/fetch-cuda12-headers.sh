#!/usr/bin/env bash
# Fetches what HIP's NVIDIA platform is built against: the headers and the static library of CUDA 12's
# runtime, from its wheel of the Python registry, unpacked, nothing installed.
#
#   deploy/fetch-cuda12-headers.sh [DIRECTORY]       (build/cuda12 when none is named)
#
# Prints the -D options for cmake as its last line. Needs python3 with pip. Does nothing when it is there already.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
target=${1:-$here/../build/cuda12}
package=nvidia-cuda-runtime-cu12
version=12.9.79

fail() { echo "fetch-cuda12-headers: $*" >&2; exit 1; }

done_mark="$target/.version-$version"
if [ ! -e "$done_mark" ]; then
  python3 -m pip --version >/dev/null 2>&1 || fail "python3 has no pip (Debian: python3-pip)"
  command -v unzip >/dev/null || fail "unzip is missing"
  wheels=$(mktemp -d)
  trap 'rm -rf "$wheels"' EXIT
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
    --dest "$wheels" "$package==$version" ||
    fail "pip could not download $package $version; is a Python registry reachable?"
  mkdir -p "$target"
  unzip -qo "$wheels"/*.whl -d "$target"
  touch "$done_mark"
fi
target=$(cd "$target" && pwd)
echo "-DKCACHE_HIP_NVIDIA=ON -DKCACHE_CUDA12_INCLUDE=$target/nvidia/cuda_runtime/include"
