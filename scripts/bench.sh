#!/usr/bin/env bash
# Runs benchmarks, all of them or those that are named, and appends what they
# printed to bench/RESULTS.md. --quick takes under a minute each and appends
# nothing. --peers installs nginx and Portkey's gateway and measures the gateway
# against them as well; what cannot be had is skipped by name.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh
quick=() peers=() names=()
for argument in "$@"; do
  case $argument in
    --quick) quick=(--quick) ;;
    --peers) peers=(--peers) ;;
    # The marathon is a long run by itself: go run ./bench/marathon. So is the
    # scheduler's, a module of its own: cd bench/schedulerperf && CGO_ENABLED=0 go run .
    ledger | gateway | waitroom | placement) names+=("$argument") ;;
    *) die "usage: scripts/bench.sh [--quick] [--peers] [ledger|gateway|waitroom|placement …]" ;;
  esac
done
[ ${#names[@]} -gt 0 ] || names=(ledger gateway waitroom placement)
need_go
if [ ${#peers[@]} -gt 0 ]; then
  # As if the machine were in its rescue level: nginx is installed, not started.
  (export RUNLEVEL=1; install_packages nginx-light) || say "nginx will be skipped"
  (need_node && cd bench/gateway/portkey && npm_ci) || say "Portkey will be skipped"
fi
for name in "${names[@]}"; do
  options=("${quick[@]}")
  [ "$name" != gateway ] || options+=("${peers[@]}")
  if [ ${#quick[@]} -gt 0 ]; then
    go run "./bench/$name" "${options[@]}"
    continue
  fi
  out=$(go run "./bench/$name" "${options[@]}" | tee /dev/stderr)
  {
    printf '\n## %s, %s\n\n`go run ./bench/%s` on %s, %s cores, Linux %s\n\n```\n%s\n```\n' \
      "$name" "$(date -u +%F)" "$name${options[*]:+ ${options[*]}}" "$(go env GOVERSION)" "$(nproc)" "$(uname -r)" "$out"
  } >>bench/RESULTS.md
done
