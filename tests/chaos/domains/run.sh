#!/usr/bin/env bash
# Builds what it needs and runs faults and strangers against a private daemon: what one trust domain does,
# another must not notice. tests/chaos/run.sh --domains is this. A table for people; each run ends with a line
# `summary: key=value …`, and the last line is the worse of both. Not zero when something was violated.
#
# Started as root it runs twice: as root, where the domains are two users, and as an ordinary user (uid 60103,
# whom nobody else is), where they are sessions. Started by anybody else, it runs as that user only. What needs
# two users is said to be excluded then.
#
#   tests/chaos/domains/run.sh [--crashes=N] [--rounds=N]
#
#   a host killed by SIGSEGV N times (50)   other_domain_failures, recover_ms_p50
#   twelve kinds of hostile program         hostile, hostile_contained, acquire_p99_ratio
#   kill -9 of a busy daemon                left_after_kill
#   captured secrets, N rounds (10)         replays_refused; and native code of a stranger's kernel
#
# Times mean something on an idle machine only.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
case ${1:-} in
  -h|--help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
esac
ordinary=60103
if [[ $EUID == 0 ]]; then deploy/install-deps.sh build runtime >/dev/null; fi
cmake --preset release >/dev/null
cmake --build --preset release --parallel "$(nproc)" --target kcached kcache-launch \
  kcache-backend-opencl kcache-backend-fake kcache-chaos-domains >/dev/null
# Compilers without a device: what is built, or can be, takes part.
cmake --build --preset release --target kcache-backend-cuda kcache-backend-hip >/dev/null 2>&1 || true

# The programs, where every user can execute them: a clone often lies in a home directory.
programs=$(mktemp -d /tmp/kcache-domains-XXXXXX)
trap 'rm -rf "$programs"' EXIT
chmod 0755 "$programs"
mkdir "$programs/home"
chmod 01777 "$programs/home"
(cd build/release &&
  find daemon backends tests/chaos/domains -type f \( -name kcached -o -name kcache-launch \
    -o -name 'kcache-backend-*' -o -name kcache-chaos-domains -o -name kcache-domains-player \) \
    -perm -u+x -print0 | xargs -0 cp --parents -t "$programs")
chmod -R go+rX "$programs"
export KCACHE_BINARY_DIR=$programs KCACHE_SOURCE_DIR=$PWD
run=("$programs/tests/chaos/domains/kcache-chaos-domains" "$@")
if [[ $EUID != 0 ]]; then
  "${run[@]}"
  exit
fi

status=0
"${run[@]}" | tee "$programs/as-root" || status=1
echo
setpriv --reuid="$ordinary" --regid="$ordinary" --clear-groups env -u XDG_RUNTIME_DIR \
  HOME="$programs/home" "${run[@]}" | tee "$programs/as-user" || status=1
echo
# Of two numbers the one that is worse: the smaller of what must be reached, else the larger.
cat "$programs/as-root" "$programs/as-user" | awk -v status="$status" '
  /^summary: / {
    ++runs
    for (i = 2; i <= NF; ++i) {
      split($i, pair, "=")
      if (!(pair[1] in worst)) { order[++keys] = pair[1]; worst[pair[1]] = pair[2]; continue }
      smaller = pair[2] + 0 < worst[pair[1]] + 0
      if ((pair[1] ~ /contained|refused|^hostile$/) == smaller) worst[pair[1]] = pair[2]
    }
  }
  END {
    printf "summary:"
    for (i = 1; i <= keys; ++i) printf " %s=%s", order[i], worst[order[i]]
    printf " runs=%d\n", runs
    exit runs == 2 ? status : 1
  }'
