#!/usr/bin/env bash
# Real Vulkan compute shaders: llama.cpp's, from the source distribution of llama-cpp-python (fetch.sh).
#
#   tests/corpus/run.sh vulkan [--no-install] [--build DIR] [argument of corpus_vulkan …]
#
# The variants are exactly those that llama.cpp's own generator asks for. All of them are compiled to
# SPIR-V through a private daemon; pipelines are made of those whose result can be computed here
# and of the smallest others, each within a time limit; the former are run and every element of what
# comes out is compared. Not good are less than 90 pipelines. The last line is
#   summary: recorded=… variants=… compiled=… failed=… pipelines=… beyond_device=… too_slow=… not_begun=… ran=…
#            wrong=… compile_s=… seconds=…
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

install=1 build=build/release arguments=()
while [ $# -gt 0 ]; do
  case $1 in
    --no-install) install=0 ;;
    --build) build=$2; shift ;;
    -h|--help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) arguments+=("$1") ;;
  esac
  shift
done

say() { printf '== %s\n' "$*"; }

if [ $install -eq 1 ]; then
  say "installing what is missing"
  deploy/install-deps.sh build runtime test
fi
say "building"
[ -e "$build/CMakeCache.txt" ] || cmake --preset release >/dev/null
cmake --build "$build" --parallel "$(nproc)" \
  --target kcached kcache-launch kcache-backend-vulkan corpus_vulkan >/dev/null

tests/corpus/fetch.sh vulkan
record=build/corpus/vulkan/record.tsv
say "$(wc -l <"$record") variants"

KCACHE_BINARY_DIR=$PWD/$build "$build/tests/corpus/vulkan/corpus_vulkan" \
  --record="$record" "${arguments[@]}"
