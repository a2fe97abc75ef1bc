#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests. On a fresh Debian 12 it needs nothing else.
#
#   tests/run.sh                 every test of the release build, then --sanitizers
#   tests/run.sh --release       only the release build's tests
#   tests/run.sh --sanitizers    only the ASan+UBSan and TSan builds' tests, and where clang is, the
#                                fuzzers for ten seconds each (every other build replays their corpora)
#   tests/run.sh --no-install    use what is installed
#
# Under a sanitizer run the tests that carry its label (`asan`, `tsan`). What is skipped is listed with its
# reason. The last line is
# `summary: tests=N failed=N skipped=N`; the exit status is 0 only if none failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

release=1 sanitizers=1 install=1
for argument in "$@"; do
  case $argument in
    --release) sanitizers=0 ;;
    --sanitizers) release=0 ;;
    --no-install) install=0 ;;
    -h|--help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) echo "run.sh: unknown option '$argument'; see --help" >&2; exit 2 ;;
  esac
done

jobs=$(nproc)
reports=$(mktemp -d)
trap 'rm -rf "$reports"' EXIT
broken=0

# run_preset PRESET TARGET [ctest arguments]: configures, builds the target, tests; a failed build
# counts as a failure.
run_preset() {
  local preset=$1 target=$2; shift 2
  echo "== $preset: configure and build"
  if ! cmake --preset "$preset" >"$reports/configure.log" 2>&1; then
    cat "$reports/configure.log"; broken=1; return
  fi
  if ! cmake --build --preset "$preset" --target "$target" --parallel "$jobs"; then
    broken=1; return
  fi
  echo "== $preset: test"
  ctest --preset "$preset" --parallel "$jobs" --output-junit "$reports/$preset.xml" "$@" || true
}

if [ $install -eq 1 ]; then
  deploy/install-deps.sh build runtime test || exit 1
  # CUDA programs compile without a GPU; where there is no toolkit, NVRTC comes from its wheel.
  if [ ! -e /usr/local/cuda ] && ! ldconfig -p | grep -q 'libnvrtc\.so\.1[23]'; then
    deploy/fetch-nvrtc.sh || echo "run.sh: no NVRTC: the tests that compile CUDA will be skipped"
  fi
fi
if [ $release -eq 1 ]; then
  # shellcheck disable=SC2086 # words on purpose
  run_preset release all ${KCACHE_CTEST_ARGUMENTS:-}
fi
if [ $sanitizers -eq 1 ]; then
  run_preset asan kcache_tests_asan -L '^asan$'
  run_preset tsan kcache_tests_tsan -L '^tsan$'
  if command -v clang++-14 >/dev/null; then run_preset fuzz kcache_fuzzers -L '^fuzz$'; fi
fi

python3 - "$broken" "$reports"/*.xml <<'PYTHON'
import collections
import re
import sys
import xml.etree.ElementTree as tree

broken, reports = int(sys.argv[1]), [r for r in sys.argv[2:] if "*" not in r]
tests = failed = skipped = 0
reasons = collections.Counter()


def reason_of(case):
    """What GoogleTest printed below `file:line: Skipped`, or a script's last line."""
    output = case.findtext("system-out") or ""
    told = re.search(r": Skipped\n(.+)", output)
    lines = output.strip().splitlines() or ["no reason given"]
    return (told.group(1) if told else lines[-1]).strip()


for report in reports:
    for case in tree.parse(report).getroot().iter("testcase"):
        tests += 1
        if case.get("status") in ("fail",) or case.find("failure") is not None:
            failed += 1
            print("FAILED", report.rsplit("/", 1)[-1][:-4], case.get("name"))
        elif case.get("status") in ("notrun", "disabled") or case.find("skipped") is not None:
            skipped += 1
            reasons[reason_of(case)] += 1
if broken:
    print("FAILED a build; see above")
if not tests:
    print("FAILED no test ran")
for reason, count in reasons.most_common():
    print(f"skipped {count}: {reason}")
passed = tests - failed - skipped
print(f"{passed} passed, {failed + broken} failed, {skipped} skipped")
print(f"summary: tests={tests} failed={failed + broken} skipped={skipped}")
sys.exit(1 if failed or broken or not tests else 0)
PYTHON
