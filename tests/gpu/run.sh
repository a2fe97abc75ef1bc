#!/usr/bin/env bash
# On a machine with a GPU: device tests, conformance of every family that runs, faults, the corpora, figures;
# one table last, and a line `summary: key=value …`.
#
#   tests/gpu/run.sh [--bundle DIRECTORY] [--only device|conformance|corpus|figures]
#                    [--backends "CUDA …"] [--corpora "darktable piglit cub vulkan vkfft"] [--limit SECONDS]
#
# Without --bundle it builds and fetches what it needs here. With it, it uses what bundle.sh collected.
# --limit: what one corpus may take (240).
set -uo pipefail
bundle= only= backends="CUDA CUDA/PTX OpenCL Vulkan HIP" corpora="darktable piglit cub vulkan vkfft" limit=240
while [ $# -gt 0 ]; do
  case $1 in
    --bundle) bundle=$(cd "${2:?}" && pwd); shift 2 ;;
    --only) only=${2:?}; shift 2 ;;
    --backends) backends=${2:?}; shift 2 ;;
    --corpora) corpora=${2:?}; shift 2 ;;
    --limit) limit=${2:?}; shift 2 ;;
    -h|--help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) echo "run.sh: unknown option '$1'; see --help" >&2; exit 2 ;;
  esac
done
if [ -n "$bundle" ]; then
  export KCACHE_BINARY_DIR=$bundle/bin LD_LIBRARY_PATH=$bundle/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  scripts=$bundle/corpus data=$bundle/corpus/data stages=$bundle
else
  cd "$(dirname "${BASH_SOURCE[0]}")/../.."
  deploy/install-deps.sh build runtime test || exit 1
  cmake --preset release >/dev/null && cmake --build --preset release --parallel "$(nproc)" || exit 1
  export KCACHE_BINARY_DIR=$PWD/build/release
  scripts=$PWD/tests/corpus data=$PWD/build/corpus stages=$PWD/tests/gpu
  if [ -z "$only" ] || [ "$only" = corpus ]; then
    "$scripts/fetch.sh" darktable piglit vulkan || exit 1
    vkfft=$("$scripts/vkfft/programs.sh" build/release) || exit 1
    # shellcheck disable=SC2086  # one word a target
    cmake --build --preset release --parallel "$(nproc)" --target $vkfft || exit 1
  fi
fi
bin=$KCACHE_BINARY_DIR
logs=$(mktemp -d "${TMPDIR:-/tmp}/kcache-gpu.XXXXXX")
table=() failed=0

command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
row() { table+=("$(printf '%-34s %s' "$1" "$2")"); }

if [ -z "$only" ] || [ "$only" = device ]; then
  for program in backends/cuda/cuda_context_test backends/hip/hip_context_test; do
    [ -x "$bin/$program" ] || continue
    name=$(basename "$program")
    timeout 240 "$bin/$program" >"$logs/$name.log" 2>&1; status=$?
    [ $status -eq 0 ] || { failed=$((failed + 1)); grep -E 'FAILED|Failure|error' "$logs/$name.log" | head -20; }
    row "$name" "exit $status, $(grep -cE '^\[       OK' "$logs/$name.log") passed, $(grep -cE '^\[  SKIPPED \]' "$logs/$name.log") skipped, $(grep -cE '^\[  FAILED  \].*ms\)' "$logs/$name.log") failed"
  done
fi
if [ -z "$only" ] || [ "$only" = conformance ]; then
  for backend in $backends; do
    log=$logs/conformance-${backend//\//-}.log
    timeout 550 "$bin/tests/conformance/kcache_conformance" --backend="$backend" >"$log" 2>&1; status=$?
    [ $status -eq 0 ] || [ $status -eq 77 ] || { failed=$((failed + 1)); grep -E '^\[  FAILED|Failure|died|Which is|Actual' "$log" | head -30; tail -n 25 "$log"; }
    # Where nothing could run, why; and what was allowed instead of what the guarantee asks for first.
    row "conformance $backend" "exit $status; $(tail -n 1 "$log")$(grep -m 1 '^no device' "$log" | sed 's/^/; /')"
    while IFS= read -r line; do row "" "$line"; done < <(grep '^allowed,' "$log")
  done
fi
if [ -z "$only" ] || [ "$only" = corpus ]; then
  . "$stages/corpus_stage.sh"
  run_corpus
fi
if [ -z "$only" ] || [ "$only" = figures ]; then
  if [ -x "$bin/tests/gpu/kcache-gpu-figures" ]; then
    timeout 280 "$bin/tests/gpu/kcache-gpu-figures" >"$logs/figures.log" 2>&1 || { failed=$((failed + 1)); tail -n 30 "$logs/figures.log"; }
    while IFS= read -r line; do row "$(echo "$line" | cut -d'|' -f1)" "$(echo "$line" | cut -d'|' -f2-)"; done < <(grep '|' "$logs/figures.log")
  fi
  for name in acquire launch; do
    timeout 120 "$bin/tests/bench/kcache-bench" "$name" >"$logs/bench-$name.log" 2>&1 ||
      { failed=$((failed + 1)); tail -n 20 "$logs/bench-$name.log"; }
    row "bench $name" "$(tail -n 1 "$logs/bench-$name.log")"
  done
fi
echo
printf '%s\n' "${table[@]}"
echo "logs: $logs"
echo "summary: rows=${#table[@]} failed=$failed"
[ $failed -eq 0 ]
