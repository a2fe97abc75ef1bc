#!/usr/bin/env bash
# Installs the library into an empty tree and builds an outside project against it.
# usage: install_test.sh BUILD_DIRECTORY
set -euo pipefail
build=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/tree" --component development >/dev/null
# The interface stands alone: no header of the wire, the contract or gRPC.
if grep -rnE '#include "(contract|client|kcache/v1)/|#include <grpc' "$work/tree/include"; then
  echo "the installed headers include what is not installed"
  exit 1
fi
cmake -S "$here/outside" -B "$work/build" -G Ninja -DCMAKE_PREFIX_PATH="$work/tree" \
      -DCMAKE_CXX_FLAGS="${2:-}" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cmake --build "$work/build" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
"$work/build/outside" "$work/no-such.sock"
