#!/usr/bin/env bash
# Runs every benchmark and appends what it printed to bench/RESULTS.md.
# --quick takes under a minute each and appends nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh
need_go
# The marathon is a long run by itself: go run ./bench/marathon. So is the
# scheduler's, a module of its own: cd bench/schedulerperf && CGO_ENABLED=0 go run .
for name in ledger gateway waitroom placement; do
  if [ "${1:-}" = --quick ]; then
    go run "./bench/$name" --quick
    continue
  fi
  out=$(go run "./bench/$name" | tee /dev/stderr)
  {
    printf '\n## %s, %s\n\n`go run ./bench/%s` on %s, %s cores, Linux %s\n\n```\n%s\n```\n' \
      "$name" "$(date -u +%F)" "$name" "$(go env GOVERSION)" "$(nproc)" "$(uname -r)" "$out"
  } >>bench/RESULTS.md
done
