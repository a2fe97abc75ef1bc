#!/usr/bin/env bash
# Real Vulkan compute shaders: llama.cpp's, from the source distribution of llama-cpp-python.
#
#   tests/corpus/run.sh vulkan [--no-install] [--build DIR] [argument of corpus_vulkan …]
#
# The variants are exactly those that llama.cpp's own generator (vulkan-shaders-gen.cpp) asks for: it
# is built and run with a stand-in for glslc that records each call. Then all of them are compiled
# to SPIR-V through a private daemon; pipelines are made of those whose result can be computed here
# and of the smallest others, each within a time limit; the former are run and every element of what
# comes out is compared. Not good are less than 90 pipelines. The last line is
#   summary: recorded=… variants=… compiled=… failed=… pipelines=… beyond_device=… too_slow=… ran=…
#            wrong=… compile_s=… seconds=…
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

release=0.3.9
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

fetched=$PWD/build/corpus/llama-cpp-python-$release
shaders=$fetched/vulkan-shaders
if [ ! -e "$fetched/record.tsv" ]; then
  say "fetching llama-cpp-python $release"
  mkdir -p "$fetched"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps \
    --no-binary=llama-cpp-python --dest "$fetched" "llama-cpp-python==$release"
  mkdir -p "$shaders"
  tar -xzf "$fetched"/llama_cpp_python-*.tar.gz -C "$shaders" --strip-components=7 --wildcards \
    '*/vendor/llama.cpp/ggml/src/ggml-vulkan/vulkan-shaders/*'
  say "asking its generator for the variants"
  g++ -std=c++17 -O0 -pthread -w -o "$fetched/generate" "$shaders/vulkan-shaders-gen.cpp"
  rm -f "$fetched/record.partial"
  mkdir -p "$fetched/out"
  KCACHE_RECORD=$fetched/record.partial "$fetched/generate" \
    --glslc "$PWD/tests/corpus/vulkan/record_glslc.py" --input-dir "$shaders" \
    --output-dir "$fetched/out" --target-hpp "$fetched/out/shaders.hpp" \
    --target-cpp "$fetched/out/shaders.cpp" >"$fetched/generate.log"
  mv "$fetched/record.partial" "$fetched/record.tsv"
fi
say "$(wc -l <"$fetched/record.tsv") variants"

KCACHE_BINARY_DIR=$PWD/$build "$build/tests/corpus/vulkan/corpus_vulkan" \
  --record="$fetched/record.tsv" "${arguments[@]}"
