#!/usr/bin/env bash
# darktable's and piglit's OpenCL programs through a private daemon, on its OpenCL:0. Installs, builds and
# fetches nothing: that is run.sh's, which also says what is run and what the summary holds.
#
#   tests/corpus/opencl.sh --programs DIR --data DIR [--jobs N] [--limit SECONDS] [--most-ratio R] [--flag FLAG] …
#                          [darktable] [piglit]
#
# --programs: a build folder, or the programs that tests/gpu/bundle.sh collected. --data: what fetch.sh fetched.
# --limit: of one process, which then counts as failed. Without it there is none. --most-ratio: what darktable's
# second process may take of the first one's time (0.02). --flag: of the daemon.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/daemon.sh"

programs= data= jobs=$(nproc) limit=0 most_ratio=0.02 flags=() corpora=()
while [ $# -gt 0 ]; do
  case $1 in
    --programs) programs=$(cd "$2" && pwd); shift ;;
    --data) data=$(cd "$2" && pwd); shift ;;
    --jobs) jobs=$2; shift ;;
    --limit) limit=$2; shift ;;
    --most-ratio) most_ratio=$2; shift ;;
    --flag) flags+=("$2"); shift ;;
    darktable|piglit) corpora+=("$1") ;;
    -h|--help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) echo "opencl.sh: unknown argument '$1'; see --help" >&2; exit 2 ;;
  esac
  shift
done
[ -n "$programs" ] && [ -n "$data" ] || { echo "opencl.sh: needs --programs and --data; see --help" >&2; exit 2; }
[ ${#corpora[@]} -gt 0 ] || corpora=(darktable piglit)

say() { printf '== %s\n' "$*"; }

work=$(mktemp -d)
cleanup() {
  end_private_daemon
  rm -rf "$work"
}
trap cleanup EXIT
# Plain OpenCL, too, starts with an empty cache of its own.
mkdir "$work/pocl" "$work/nvidia" "$work/native"
export POCL_CACHE_DIR=$work/pocl CUDA_CACHE_PATH=$work/nvidia

say "starting a private daemon"
private_daemon "$work" "$programs" --backends.directories="$programs/backends/opencl" \
  --compile.workers="$jobs" --compile.nice=0 "${flags[@]}"
control devices | grep -q 'OpenCL:0' || { control devices; cat "$work/daemon.log" >&2; exit 1; }

# limited COMMAND …: in our process group, so that what ends this script ends it, too.
limited() { timeout --foreground --kill-after=5 "$limit" "$@"; }
# field NAME FILE: out of the last line, "name=value name=value"; 0 where a process did not get that far.
field() { tail -n 1 "$2" | tr ' ' '\n' | awk -F= -v name="$1" '$1 == name { value = $2 } END { print (value == "" ? 0 : value) }'; }
# ended FILE: whether what wrote it got to its last line.
ended() { tail -n 1 "$1" | grep -qE '^(programs|files)=' && return; echo "ours: a process did not come to its end"; return 1; }

summary= bad=0

run_darktable() {
  local kernels=$data/darktable/usr/share/darktable/kernels program=$programs/tests/corpus/corpus_darktable
  local pass
  for pass in first second restart; do
    if [ $pass = restart ]; then
      say "darktable: destroying the device"
      control destroy-device OpenCL:0 >"$work/destroy.log" 2>&1 || { cat "$work/destroy.log"; bad=1; }
    fi
    say "darktable: $pass process"
    limited "$program" --kernels "$kernels" >"$work/darktable.$pass" || true
    ended "$work/darktable.$pass" || bad=1
    tail -n 1 "$work/darktable.$pass"
  done
  # A kernel that fails natively as well is the driver's own.
  local failures=0 line name
  while read -r line; do
    name=$(awk '{print $2}' <<<"$line")
    limited "$program" --kernels "$kernels" --native --only "$name" >"$work/darktable.alone" 2>/dev/null || true
    if grep -qF "FAILED $name " "$work/darktable.alone"; then
      echo "plain OpenCL fails alike: $line"
    else
      echo "ours: $line"; failures=$((failures + 1))
    fi
  done < <(cat "$work"/darktable.{first,second,restart} | grep '^FAILED' | sort -u)
  local first second restart ratio
  first=$(field seconds "$work/darktable.first") second=$(field seconds "$work/darktable.second")
  restart=$(field seconds "$work/darktable.restart")
  ratio=$(awk -v first="$first" -v second="$second" 'BEGIN { printf "%.4f", (first > 0 ? second / first : 1) }')
  awk -v ratio="$ratio" -v most="$most_ratio" 'BEGIN { exit (ratio > most) }' ||
    { echo "the second process took more than $most_ratio of the first"; bad=1; }
  [ "$failures" -eq 0 ] || bad=1
  summary+=" programs=$(field programs "$work/darktable.first") kernels=$(field kernels "$work/darktable.first")"
  summary+=" compiles=$(count compiles) failures=$failures first_s=$first second_s=$second ratio=$ratio"
  summary+=" restart_s=$restart jit_in_host=$(count jit_in_host)"
}

# Where the plain OpenCL of a test file writes.
native_log() { echo "$work/native/${1//\//-}"; }

run_piglit() {
  local tests=$data/piglit/usr/lib/x86_64-linux-gnu/piglit program=$programs/tests/corpus/corpus_piglit
  local shard processes=()
  say "piglit: $jobs processes side by side; this takes some minutes"
  for ((shard = 0; shard < jobs; ++shard)); do
    limited "$program" --tests "$tests" --shard "$shard/$jobs" >"$work/piglit.$shard" 2>"$work/piglit.$shard.log" &
    processes+=($!)
  done
  for shard in "${processes[@]}"; do wait "$shard" || true; done
  local name
  local -A total=([files]=0 [cases]=0 [passed]=0 [failed]=0 [skipped]=0)
  for ((shard = 0; shard < jobs; ++shard)); do
    ended "$work/piglit.$shard" || { bad=1; tail -n 3 "$work/piglit.$shard.log"; }
    for name in "${!total[@]}"; do total[$name]=$((total[$name] + $(field "$name" "$work/piglit.$shard"))); done
  done
  [ "${total[cases]}" -gt 0 ] || { echo "ours: no test was found"; bad=1; }
  cat "$work"/piglit.*[0-9] | grep '^FAILED' >"$work/failed" || true
  say "piglit: trying the ${total[failed]} failures in plain OpenCL"
  local alike=0 line file files=()
  mapfile -t files < <(sed -n 's/^FAILED \([^:]*\): .*/\1/p' "$work/failed" | sort -u)
  for file in "${files[@]}"; do
    while [ "$(jobs -rp | wc -l)" -gt "$jobs" ]; do wait -n || true; done  # the daemon is one of them
    limited "$program" --tests "$tests" --native --only "$file" >"$(native_log "$file")" 2>/dev/null &
  done
  for shard in $(jobs -rp); do [ "$shard" = "$daemon_process" ] || wait "$shard" || true; done
  while read -r line; do
    file=${line#FAILED } file=${file%%: *} name=${line#FAILED "$file": } name=${name%%: *}
    if grep -qF "FAILED $file: $name: " "$(native_log "$file")"; then
      alike=$((alike + 1)); echo "plain OpenCL fails alike: $line" | cut -c1-200
    else
      echo "ours: $line"; bad=1
    fi
  done <"$work/failed"
  summary+=" piglit_files=${total[files]} piglit_cases=${total[cases]} piglit_passed=${total[passed]}"
  summary+=" piglit_failed=${total[failed]} piglit_failed_alike=$alike piglit_skipped=${total[skipped]}"
}

for corpus in "${corpora[@]}"; do "run_$corpus"; done

say "result"
tr ' ' '\n' <<<"$summary" | sed '/^$/d' | awk -F= '{printf "  %-22s %s\n", $1, $2}'
echo "summary:$summary"
exit $bad
