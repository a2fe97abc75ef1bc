#!/usr/bin/env bash
# Builds what it needs and runs one benchmark: a table for people, and last a line
# `summary: key=value …`. Ratios are against a baseline measured in the same run.
#
#   tests/bench/run.sh acquire    warm_ratio (÷ a bare gRPC echo), memo_ns, batch256_ms
#   tests/bench/run.sh fanout     from an operator's destroy to the last acknowledgement: p99_ms_1,
#                                 p99_ms_8, p99_ms_64 (processes), p99_ms_1000s (sessions), and
#                                 ratio_64, ratio_1000 (÷ a bare gRPC server that tells as many)
#   tests/bench/run.sh launch     throughput_ratio, sync_ratio (÷ native OpenCL)
#   tests/bench/run.sh sessions   the daemon's memory: bytes_per_session, bytes_per_lease
#
# Times mean something on an idle machine only.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
name=${1:-}
case $name in
  acquire|fanout|launch|sessions) ;;
  *) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
esac
deploy/install-deps.sh build runtime >/dev/null
cmake --preset release >/dev/null
cmake --build --preset release --parallel "$(nproc)" \
  --target kcached kcache-launch kcache-backend-fake kcache-backend-opencl kcache-bench >/dev/null
export KCACHE_BINARY_DIR=$PWD/build/release KCACHE_SOURCE_DIR=$PWD
exec build/release/tests/bench/kcache-bench "$name"
