#!/usr/bin/env bash
# Fetches what the corpora run, once, into build/corpus, where each has a folder of its own that can be moved.
#
#   tests/corpus/fetch.sh [darktable] [piglit] [vulkan]
#
# darktable, piglit: the Debian package, unpacked. vulkan: llama.cpp's compute shaders from the source
# distribution of llama-cpp-python, and record.tsv, the variants of them that llama.cpp's own generator
# (vulkan-shaders-gen.cpp) asks for: it is built, and run with a stand-in for glslc that records each call.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
fetched=$PWD/build/corpus
release=0.3.9  # of llama-cpp-python

say() { printf '== %s\n' "$*"; }

fetch_package() {
  rm -f "$fetched/download/$1"_*.deb  # of an earlier version
  (cd "$fetched/download" && apt-get download "$1")
  dpkg-deb -x "$fetched/download/$1"_*.deb "$2"
}
fetch_darktable() { fetch_package darktable "$1"; }
fetch_piglit() { fetch_package piglit "$1"; }

fetch_vulkan() {
  local shaders=$1/shaders made
  python3 -m pip download --quiet --disable-pip-version-check --no-deps \
    --no-binary=llama-cpp-python --dest "$fetched/download" "llama-cpp-python==$release"
  mkdir -p "$shaders"
  tar -xzf "$fetched/download/llama_cpp_python-$release.tar.gz" -C "$shaders" --strip-components=7 --wildcards \
    '*/vendor/llama.cpp/ggml/src/ggml-vulkan/vulkan-shaders/*'
  say "asking its generator for the variants"
  made=$(mktemp -d)
  g++ -std=c++17 -O0 -pthread -w -o "$made/generate" "$shaders/vulkan-shaders-gen.cpp"
  mkdir "$made/out"
  KCACHE_RECORD=$made/record "$made/generate" --glslc "$PWD/tests/corpus/vulkan/record_glslc.py" \
    --input-dir "$shaders" --output-dir "$made/out" --target-hpp "$made/shaders.hpp" \
    --target-cpp "$made/shaders.cpp" >/dev/null
  # Names of sources from where the record lies.
  sed "s|\t$1/|\t|" "$made/record" >"$1/record.tsv"
  ! grep -q $'\t/' "$1/record.tsv" || { echo "fetch.sh: the record names a source from elsewhere" >&2; return 1; }
  rm -r "$made"
}

for corpus in "$@"; do
  case $corpus in
    darktable|piglit|vulkan) ;;
    -h|--help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) echo "fetch.sh: unknown corpus '$corpus'; see --help" >&2; exit 2 ;;
  esac
  [ ! -d "$fetched/$corpus" ] || continue
  say "fetching $corpus"
  rm -rf "$fetched/$corpus.partial"
  mkdir -p "$fetched/download" "$fetched/$corpus.partial"
  "fetch_$corpus" "$fetched/$corpus.partial"
  mv "$fetched/$corpus.partial" "$fetched/$corpus"
done
