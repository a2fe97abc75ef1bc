#!/usr/bin/env bash
# Builds what it needs and runs faults and strangers against a private daemon: what one trust domain does,
# another must not notice. tests/chaos/run.sh --domains is this. As root the domains are two users; as an
# ordinary user they are sessions. A table for people, and last a line `summary: key=value …`; not zero when
# something was violated.
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
if [[ $EUID == 0 ]]; then deploy/install-deps.sh build runtime >/dev/null; fi
cmake --preset release >/dev/null
cmake --build --preset release --parallel "$(nproc)" --target kcached kcache-launch \
  kcache-backend-opencl kcache-backend-fake kcache-chaos-domains >/dev/null
# Compilers without a device: what is built, or can be, takes part.
cmake --build --preset release --target kcache-backend-cuda kcache-backend-hip >/dev/null 2>&1 || true
export KCACHE_BINARY_DIR=$PWD/build/release KCACHE_SOURCE_DIR=$PWD
exec build/release/tests/chaos/domains/kcache-chaos-domains "$@"
