#!/usr/bin/env bash
# From nothing to the job kcache is for, on a fresh Debian 12 (root, or a user with sudo): installs what
# is missing, builds, starts a private daemon, runs the job, stops what it started.
#
#   deploy/quickstart.sh [--no-install] [--keep]
#
#   --no-install   use what is installed
#   --keep         leave the daemon running and say how to talk to it
#
# The job: two processes ask for the same kernel at the same moment, and one compile happens; a third
# one, started later, gets it without a compile; an operator's clear reaches all three before anything
# is released; after a destroy-device an old lease is refused with a typed reason, and acquiring again
# works. Everything launched is checked against the CPU.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

install=1 keep=0
for argument in "$@"; do
  case $argument in
    --no-install) install=0 ;;
    --keep) keep=1 ;;
    -h|--help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) echo "quickstart: unknown option '$argument'; see --help" >&2; exit 2 ;;
  esac
done
say() { printf '\n== %s\n' "$*"; }
fail() { echo "quickstart: $*" >&2; [ -n "${run:-}" ] && tail -n 20 "$run"/*.log >&2; exit 1; }

if [ $install -eq 1 ]; then
  say "packages"
  deploy/install-deps.sh build runtime
fi
say "build (the first time takes some minutes)"
cmake --preset release >/dev/null
cmake --build --preset release --parallel "$(nproc)" \
  --target kcached kcachectl kcache-quickstart-job kcache-backend-opencl kcache-launch

build=$PWD/build/release
kcached=$build/daemon/kcached kcachectl=$build/client/ctl/kcachectl
job=$build/deploy/quickstart/kcache-quickstart-job

run=$(mktemp -d "${TMPDIR:-/tmp}/kcache-quickstart.XXXXXX")
daemon=
cleanup() {
  exec 11>&- 12>&- 13>&- 2>/dev/null || true
  if [ -n "$daemon" ] && [ $keep -eq 0 ]; then
    kill "$daemon" 2>/dev/null || true
    wait "$daemon" 2>/dev/null || true
    rm -rf "$run"
  fi
}
trap cleanup EXIT

say "a private daemon, in $run"
export KCACHE_SOCKET=$run/kcached.sock KCACHE_ADMIN_SOCKET=$run/admin.sock
"$kcached" --runtime-dir "$run" --backends.directories "$build/backends/opencl" --backends.launcher "$build/daemon/kcache-launch" >"$run/daemon.log" 2>&1 &
daemon=$!
for _ in $(seq 200); do
  "$kcachectl" status >/dev/null 2>&1 && break
  kill -0 "$daemon" 2>/dev/null || fail "the daemon ended"
  sleep 0.05
done
"$kcachectl" devices || fail "the daemon does not answer"

# A job's steps go in through a pipe, its answers come back line by line.
tag="quickstart $$ $(date +%s%N)"
start_job() { # NAME FD
  mkfifo "$run/$1.in" "$run/$1.out"
  "$job" "$1" "$tag" <"$run/$1.in" >"$run/$1.out" 2>"$run/$1.log" &
  eval "exec $2>\"$run/$1.in\" $(($2 + 10))<\"$run/$1.out\""
}
tell() { echo "$2" >&"$1"; }
hear() { # FD -> the answer, in $answer
  IFS= read -r -t 120 -u $(($1 + 10)) answer || fail "no answer from a job"
  case $answer in failed*) fail "a job says: $answer" ;; esac
}
value() { # KEY TEXT
  local word
  for word in $2; do case $word in "$1="*) echo "${word#*=}"; return ;; esac; done
}
both() { tell 11 "$1"; tell 12 "$1"; }

say "two processes ask for the same new kernel at the same moment"
start_job first 11; start_job second 12
hear 11; hear 12
both acquire
hear 11; first=$answer; hear 12; second=$answer
echo "first:  $first"; echo "second: $second"
both launch
hear 11; launch=$answer; echo "first:  $answer"; hear 12; echo "second: $answer"

say "a third process, later"
start_job third 13; hear 13
tell 13 acquire; hear 13; third=$answer; echo "third:  $third"
tell 13 launch; hear 13; echo "third:  $answer"
tell 13 warm; hear 13; warm=$answer; echo "third:  $warm (forgotten here, warm at the daemon)"
compiles=$("$kcachectl" --json status | python3 -c 'import json,sys; print(json.load(sys.stdin)["compiles"])')
echo "compiles so far: $compiles"

say "an operator clears the cache: everybody is told before anything is released"
"$kcachectl" clear
told_before=0 told_after=0
for fd in 11 12 13; do
  tell "$fd" told; hear "$fd"; echo "job: $answer"
  [ "$(value before "$answer")" = 1 ] && [ "$(value usable_before "$answer")" = 1 ] && told_before=$((told_before + 1))
  [ "$(value after "$answer")" = 1 ] && told_after=$((told_after + 1))
done
for fd in 11 12 13; do tell "$fd" acquire; hear "$fd"; done

say "an operator destroys the device; an old lease is refused; acquiring again works"
"$kcachectl" destroy-device OpenCL:0
tell 11 stale; hear 11; stale=$answer; echo "first:  $stale"
tell 11 acquire; hear 11; again=$answer; echo "first:  $again"
tell 11 launch; hear 11; echo "first:  $answer"
compiles=$("$kcachectl" --json status | python3 -c 'import json,sys; print(json.load(sys.stdin)["compiles"])')

cold=$(value ms "$first"); other=$(value ms "$second")
say "what it took"
printf '%-42s %12s\n' \
  "compile (of two waiting processes)" "$(printf '%s\n%s\n' "$cold" "$other" | sort -n | tail -n 1) ms" \
  "first lease of a later process" "$(value ms "$third") ms" \
  "warm lease" "$(value ms "$warm") ms" \
  "launch and synchronize, 2^20 elements" "$(value ms "$launch") ms" \
  "told before release / after" "$told_before / $told_after of 3" \
  "stale launch refused with" "$(value reason "$stale")"
if [ $keep -eq 1 ]; then
  echo "The daemon (pid $daemon) is still there: export KCACHE_SOCKET=$KCACHE_SOCKET KCACHE_ADMIN_SOCKET=$KCACHE_ADMIN_SOCKET"
fi
refused=$(value refused "$stale")
echo "summary: compiles=$compiles told_before_release=$told_before told_after=$told_after stale_refused=$refused reacquired=1"
[ "$compiles" = 1 ] && [ "$told_before" = 3 ] && [ "$told_after" = 3 ] && [ "$refused" = 1 ]
