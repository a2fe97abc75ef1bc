#!/usr/bin/env bash
# Which lines of the protocol's heart the tests execute: proto/contract and daemon/core, by the tests
# that carry the label `tsan` (those two and what drives them).
#
#   tests/coverage.sh [--no-install]
#
# Prints a table by file; the last line is `summary: contract_lines_percent=N core_lines_percent=N`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

[ "${1:-}" = --no-install ] || deploy/install-deps.sh build runtime test

build=build/coverage
cmake --preset coverage >/dev/null
cmake --build --preset coverage --target kcache_tests_tsan --parallel "$(nproc)"
find "$build" -name '*.gcda' -delete # counts of an earlier run would add up
ctest --preset coverage -L '^tsan$' --parallel "$(nproc)" --quiet

# percent PATH: prints the table of the sources below PATH, and sets `lines` to their percentage.
percent() {
  local report
  report=$(gcovr --root . --object-directory "$build" --filter "$1/" --exclude '.*_test\.cc' \
                 --exclude-throw-branches "$build")
  echo "$report"
  lines=$(awk '$1 == "TOTAL" { sub("%", "", $4); print $4 }' <<<"$report")
}
percent proto/contract; contract=$lines
if [ -d daemon/core ]; then percent daemon/core; core=$lines; else core=0; fi
echo "summary: contract_lines_percent=$contract core_lines_percent=$core"
