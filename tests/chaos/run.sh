#!/usr/bin/env bash
# Builds what it needs and makes a chaos run: the real daemon, real device hosts, tens of client processes,
# faults from a seed; then validates what every process recorded. A table for people, and last a line
# `summary: key=value …`. Not zero when something was violated.
#
#   tests/chaos/run.sh [--seconds N] [--seed N] [--backend fake|opencl|both] [--clients N] [--keep DIRECTORY]
#   tests/chaos/run.sh --broken fence|ack-wait …   a mutated host or daemon: zero if it was caught
#   tests/chaos/run.sh --domains …                 faults and trust domains: tests/chaos/domains/run.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
if [[ ${1:-} == --domains ]]; then
  shift
  exec tests/chaos/domains/run.sh "$@"
fi
arguments=() targets=(kcache-chaos)
while (($# > 0)); do
  case $1 in
    --seconds|--seed|--backend|--clients|--keep|--broken)
      (($# > 1)) || { echo "$1 needs a value" >&2; exit 2; }
      [[ $1 == --broken ]] && targets+=(kcache-chaos-broken)
      arguments+=("$1=$2")
      shift 2 ;;
    --plan) arguments+=("$1"); shift ;;
    *) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
  esac
done
deploy/install-deps.sh build runtime test >/dev/null
cmake --preset release >/dev/null
cmake --build --preset release --parallel "$(nproc)" --target "${targets[@]}" >/dev/null
export KCACHE_BINARY_DIR=$PWD/build/release KCACHE_SOURCE_DIR=$PWD
exec build/release/tests/chaos/kcache-chaos "${arguments[@]}"
