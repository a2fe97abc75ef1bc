#!/usr/bin/env bash
# usage: verify.sh UNIT SYSUSERS
# Fails when systemd finds anything to say about the unit or about who it makes. 77 (skipped) without
# systemd's tools.
set -euo pipefail
unit=${1:?unit} sysusers=${2:?sysusers}
command -v systemd-analyze >/dev/null || { echo "no systemd-analyze here"; exit 77; }

said=$(systemd-analyze verify "$unit" 2>&1 | grep -F "$(basename "$unit")" || true)
if [ -n "$said" ]; then
  echo "systemd-analyze verify $unit:"
  echo "$said"
  exit 1
fi
if command -v systemd-sysusers >/dev/null; then
  root=$(mktemp -d); trap 'rm -rf "$root"' EXIT
  mkdir -p "$root/etc"
  systemd-sysusers --root="$root" - <"$sysusers"
  grep -q '^kcache-compile:' "$root/etc/passwd" || { echo "no user kcache-compile was made"; exit 1; }
  grep -q '^kcache-admin:' "$root/etc/group" || { echo "no group kcache-admin was made"; exit 1; }
fi

# The control group as backstop: kcached may divide it, what is left is killed, and a compile that the kernel
# ends for its memory is no reason to stop the service.
for line in Delegate=yes KillMode=mixed OOMPolicy=continue; do
  grep -qx "$line" "$unit" || { echo "the unit does not say $line"; exit 1; }
done

# Stopping must not be cut short: the unit's bound exceeds the drain's default bounds (33 s).
stop=$(sed -n 's/^TimeoutStopSec=//p' "$unit")
[ "$stop" -gt 33 ] || { echo "TimeoutStopSec=$stop is shorter than the drain"; exit 1; }
echo "the unit is good"
