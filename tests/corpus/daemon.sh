# shellcheck shell=bash
# A private daemon for the corpora's scripts, sourced by them.
#
#   private_daemon DIRECTORY PROGRAMS [FLAG …]
#
# starts the kcached below PROGRAMS, a build folder or what tests/gpu/bundle.sh collected, in DIRECTORY, waits
# until it answers, and exports KCACHE_SOCKET and KCACHE_ADMIN_SOCKET. Its log is DIRECTORY/daemon.log.
# `control …` is its kcachectl, `count NAME` a number out of its status. end_private_daemon ends it.

daemon_process= daemon_control=

control() { "$daemon_control" "$@"; }

private_daemon() {
  local directory=$1 programs=$2
  shift 2
  chmod 711 "$directory"  # compiles run as another user, in directories below
  mkdir -p "$directory/run"
  export KCACHE_SOCKET=$directory/run/kcached.sock KCACHE_ADMIN_SOCKET=$directory/run/admin.sock
  daemon_control=$programs/client/ctl/kcachectl
  "$programs/daemon/kcached" --runtime-dir="$directory/run" --socket="$KCACHE_SOCKET" \
    --admin-socket="$KCACHE_ADMIN_SOCKET" --state-dir="$directory/state" "$@" >"$directory/daemon.log" 2>&1 &
  daemon_process=$!
  local tries
  for ((tries = 0; tries < 600; ++tries)); do
    control status >/dev/null 2>&1 && return
    kill -0 "$daemon_process" 2>/dev/null || break
    sleep 0.1
  done
  cat "$directory/daemon.log" >&2
  return 1
}

end_private_daemon() {
  [ -z "$daemon_process" ] || { kill "$daemon_process" 2>/dev/null && wait "$daemon_process" 2>/dev/null; } || true
  daemon_process=
}

count() { control --json status | sed -n "s/^ *\"$1\": *\"\{0,1\}\([0-9]*\).*/\1/p"; }
