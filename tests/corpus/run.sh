#!/usr/bin/env bash
# Real programs through a private daemon on real devices.
#
#   tests/corpus/run.sh [--no-install] [--build DIR] [--jobs N] [darktable] [piglit]
#   tests/corpus/run.sh cub|vkfft|vulkan [argument …] see tests/corpus/README.md
#
# darktable: every program and kernel that Debian's darktable ships, built with darktable's own options, one
#   completed launch each: in a first new process (everything is compiled), in a second one, and in one more
#   after the device was destroyed (a fresh device host).
# piglit: the OpenCL program tests of Debian's piglit, launched and compared with their expected results.
#
# --jobs: compile workers and test processes side by side (the number of processors).
#
# Both are fetched by package name into the build folder. What fails is tried again in plain OpenCL, without
# the daemon; the exit status is 0 only if everything that failed fails there alike and the second process
# took at most a fiftieth of the first one's time. The last line is
#   summary: programs=… kernels=… compiles=… failures=… first_s=… second_s=… ratio=… restart_s=… jit_in_host=…
#            piglit_files=… piglit_cases=… piglit_passed=… piglit_failed=… piglit_failed_alike=… piglit_skipped=…
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# The other families' corpora are scripts of their own, each with a summary of its own.
case ${1:-} in
  cub|vkfft|vulkan) exec "tests/corpus/$1/run.sh" "${@:2}" ;;
esac

install=1 build=build/release jobs=$(nproc) corpora=()
while [ $# -gt 0 ]; do
  case $1 in
    --no-install) install=0 ;;
    --build) build=$2; shift ;;
    --jobs) jobs=$2; shift ;;
    darktable|piglit) corpora+=("$1") ;;
    -h|--help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) echo "run.sh: unknown argument '$1'; see --help" >&2; exit 2 ;;
  esac
  shift
done
[ ${#corpora[@]} -gt 0 ] || corpora=(darktable piglit)

say() { printf '== %s\n' "$*"; }

if [ $install -eq 1 ]; then
  say "installing what is missing"
  deploy/install-deps.sh build runtime test
fi
say "building"
[ -e "$build/CMakeCache.txt" ] || cmake --preset release >/dev/null
cmake --build "$build" --parallel "$(nproc)" \
  --target kcached kcachectl kcache-launch kcache-backend-opencl corpus_darktable corpus_piglit

# fetch PACKAGE: unpacks the Debian package once, into the build folder.
fetched=$PWD/build/corpus
fetch() {
  [ -d "$fetched/$1" ] && return
  say "fetching $1"
  mkdir -p "$fetched/download"
  (cd "$fetched/download" && apt-get download "$1")
  dpkg-deb -x "$fetched/download/$1"_*.deb "$fetched/$1.partial"
  mv "$fetched/$1.partial" "$fetched/$1"
}
for corpus in "${corpora[@]}"; do fetch "$corpus"; done

work=$(mktemp -d)
chmod 711 "$work"  # compiles run as another user, in directories below
mkdir -p "$work/run" "$work/pocl"
daemon=
cleanup() {
  [ -z "$daemon" ] || { kill "$daemon" 2>/dev/null && wait "$daemon" 2>/dev/null; } || true
  rm -rf "$work"
}
trap cleanup EXIT
export KCACHE_SOCKET=$work/run/kcached.sock KCACHE_ADMIN_SOCKET=$work/run/admin.sock
# Plain OpenCL, too, starts with an empty cache of its own.
export POCL_CACHE_DIR=$work/pocl
control=$(find "$build/client" -name kcachectl -type f | head -1)

say "starting a private daemon"
"$build/daemon/kcached" --runtime-dir="$work/run" --socket="$KCACHE_SOCKET" \
  --admin-socket="$KCACHE_ADMIN_SOCKET" --state-dir="$work/state" \
  --backends.directories="$build/backends/opencl" \
  --compile.workers="$jobs" --compile.nice=0 --compile.processes=8192 >"$work/daemon.log" 2>&1 &
daemon=$!
for _ in $(seq 600); do
  "$control" status >/dev/null 2>&1 && break
  kill -0 "$daemon" 2>/dev/null || { cat "$work/daemon.log" >&2; exit 1; }
  sleep 0.1
done

# count NAME: a number out of the daemon's status.
count() {
  "$control" --json status | python3 -c '
import json, re, sys
name = sys.argv[1]
camel = re.sub("_(.)", lambda m: m.group(1).upper(), name)
status = json.load(sys.stdin)
print(status.get(name, status.get(camel, 0)))' "$1"
}
# field NAME: of the last line of stdin, "name=value name=value".
field() { tail -1 | tr ' ' '\n' | sed -n "s/^$1=//p"; }

"$control" devices | grep -q 'OpenCL:0' || { "$control" devices; cat "$work/daemon.log" >&2; exit 1; }

summary= bad=0

run_darktable() {
  local kernels=$fetched/darktable/usr/share/darktable/kernels program=$build/tests/corpus/corpus_darktable
  local pass
  for pass in first second restart; do
    if [ $pass = restart ]; then
      say "darktable: destroying the device"
      "$control" destroy-device OpenCL:0 >"$work/destroy.log" 2>&1 || { cat "$work/destroy.log"; bad=1; }
    fi
    say "darktable: $pass process"
    "$program" --kernels "$kernels" >"$work/darktable.$pass" || true
    tail -1 "$work/darktable.$pass"
  done
  # A kernel that fails natively as well is the driver's own.
  local failures=0 line name
  while read -r line; do
    name=$(awk '{print $2}' <<<"$line")
    if "$program" --kernels "$kernels" --native --only "$name" >/dev/null 2>&1; then
      echo "ours: $line"; failures=$((failures + 1))
    else
      echo "plain OpenCL fails alike: $line"
    fi
  done < <(cat "$work"/darktable.* | grep '^FAILED' | sort -u)
  local first second restart ratio
  first=$(field seconds <"$work/darktable.first"); second=$(field seconds <"$work/darktable.second")
  restart=$(field seconds <"$work/darktable.restart")
  ratio=$(python3 -c "print(f'{$second / $first:.4f}')")
  python3 -c "import sys; sys.exit($ratio > 0.02)" || { echo "the second process took more than 0.02 of the first"; bad=1; }
  [ "$failures" -eq 0 ] || bad=1
  summary+=" programs=$(field programs <"$work/darktable.first") kernels=$(field kernels <"$work/darktable.first")"
  summary+=" compiles=$(count compiles) failures=$failures first_s=$first second_s=$second ratio=$ratio"
  summary+=" restart_s=$restart jit_in_host=$(count jit_in_host)"
}

run_piglit() {
  local tests=$fetched/piglit/usr/lib/x86_64-linux-gnu/piglit program=$build/tests/corpus/corpus_piglit
  local shards shard processes=()
  shards=$jobs
  say "piglit: $shards processes side by side; this takes some minutes"
  for shard in $(seq 0 $((shards - 1))); do
    "$program" --tests "$tests" --shard "$shard/$shards" >"$work/piglit.$shard" 2>"$work/piglit.$shard.log" &
    processes+=($!)
  done
  for shard in "${processes[@]}"; do wait "$shard" || true; done
  local total=0 passed=0 failed=0 skipped=0 files=0
  for shard in $(seq 0 $((shards - 1))); do
    files=$((files + $(field files <"$work/piglit.$shard"))); total=$((total + $(field cases <"$work/piglit.$shard")))
    passed=$((passed + $(field passed <"$work/piglit.$shard")))
    failed=$((failed + $(field failed <"$work/piglit.$shard")))
    skipped=$((skipped + $(field skipped <"$work/piglit.$shard")))
  done
  say "piglit: trying the $failed failures in plain OpenCL"
  local alike=0 line file name
  for file in $(cat "$work"/piglit.[0-9]* | sed -n 's/^FAILED \([^:]*\): .*/\1/p' | sort -u); do
    "$program" --tests "$tests" --native --only "$file" >"$work/native" 2>/dev/null || true
    while read -r line; do
      name=${line#FAILED "$file": }; name=${name%%: *}
      if grep -qF "FAILED $file: $name: " "$work/native"; then
        alike=$((alike + 1)); echo "plain OpenCL fails alike: $line" | cut -c1-200
      else
        echo "ours: $line"; bad=1
      fi
    done < <(cat "$work"/piglit.[0-9]* | grep -F "FAILED $file: ")
  done
  summary+=" piglit_files=$files piglit_cases=$total piglit_passed=$passed piglit_failed=$failed"
  summary+=" piglit_failed_alike=$alike piglit_skipped=$skipped"
}

for corpus in "${corpora[@]}"; do "run_$corpus"; done

say "result"
tr ' ' '\n' <<<"$summary" | sed '/^$/d' | awk -F= '{printf "  %-22s %s\n", $1, $2}'
echo "summary:$summary"
exit $bad
