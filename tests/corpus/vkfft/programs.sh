#!/usr/bin/env bash
# Prints VkFFT's programs that a build folder can make, a target a line: one for each API whose headers are there.
#
#   tests/corpus/vkfft/programs.sh BUILD_DIRECTORY
set -euo pipefail
ninja -C "${1:?usage: programs.sh BUILD_DIRECTORY}" -t targets all |
  sed -n 's|^tests/corpus/vkfft/\(corpus_vkfft[a-z_]*\): .*|\1|p' | grep . ||
  { echo "programs.sh: $1 can make none of VkFFT's programs; is libvkfft-dev installed?" >&2; exit 1; }
