#!/usr/bin/env bash
# Installs the Debian packages that kcache needs and that are not installed yet.
#
#   deploy/install-deps.sh [build] [runtime] [test]      (all three when none is named)
#
# Needs root or sudo, only if something is missing. Idempotent; asks nothing.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

fail() { echo "install-deps: $*" >&2; exit 1; }

command -v dpkg-query >/dev/null || fail "this is not a Debian system (no dpkg-query); install by hand what deploy/packages/*.txt list"

lists=("$@")
[ ${#lists[@]} -gt 0 ] || lists=(build runtime test)
wanted=()
for list in "${lists[@]}"; do
  file="$here/packages/$list.txt"
  [ -r "$file" ] || fail "no package list named '$list'; there are: $(cd "$here/packages" && echo *.txt)"
  mapfile -t -O ${#wanted[@]} wanted < <(sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' "$file")
done

missing=()
for package in "${wanted[@]}"; do
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "install-deps: all ${#wanted[@]} packages are installed"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || fail "needs root to install: ${missing[*]} (neither root nor sudo here)"
  as_root=(sudo)
fi
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300)

echo "install-deps: installing ${#missing[@]} of ${#wanted[@]} packages: ${missing[*]}"
"${apt[@]}" update || fail "apt-get update failed; is a package mirror reachable?"
"${apt[@]}" install -y --no-install-recommends "${missing[@]}" ||
  fail "apt-get install failed; see its messages above"
echo "install-deps: done"
