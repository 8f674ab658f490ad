#!/usr/bin/env bash
# Runs the tests. `quick` is the inner loop (no race detector, no browser, no
# peers, no linter); without an argument everything runs, which is what
# continuous integration does. Ends with one line: N passed, N failed, N skipped.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh
mode="${1:-full}"
[ "$mode" = full ] || [ "$mode" = quick ] || die "usage: scripts/test.sh [quick]"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TALLY_FILE="$work/tally"
: >"$TALLY_FILE"
skipped_layers=()

# Tests save contexts of their own and never touch the caller's.
export XDG_CONFIG_HOME="$work/config"

# layer NAME COMMAND… runs one suite whose own tests are not counted by tally
# as one test.
layer() {
  local name=$1
  shift
  say "$name"
  if "$@" >"$work/out" 2>&1; then
    tail -n 3 "$work/out"
    echo "1 0 0" >>"$TALLY_FILE"
  else
    cat "$work/out"
    echo "--- fail $name"
    echo "0 1 0" >>"$TALLY_FILE"
  fi
}

# vitest NAME ARGS… runs one of the console's suites and counts its tests.
vitest() {
  local name=$1
  shift
  say "$name"
  rm -f "$work/vitest.json"
  (cd console && npx vitest run "$@" --reporter=default --reporter=json --outputFile.json="$work/vitest.json")
  if [ -f "$work/vitest.json" ]; then
    node -p 'const r = JSON.parse(require("fs").readFileSync(process.argv[1])); [r.numPassedTests, r.success ? 0 : Math.max(1, r.numFailedTests), r.numPendingTests + r.numTodoTests].join(" ")' "$work/vitest.json" >>"$TALLY_FILE"
  else
    echo "--- fail $name: it did not say how many tests it ran"
    echo "0 1 0" >>"$TALLY_FILE"
  fi
}

skip_layer() {
  skipped_layers+=("$1: $2")
}

finish() {
  local passed failed skipped
  read -r passed failed skipped < <(awk 'NF==3 {p+=$1; f+=$2; s+=$3} END {print p+0, f+0, s+0}' "$TALLY_FILE")
  skipped=$((skipped + ${#skipped_layers[@]}))
  for s in "${skipped_layers[@]:-}"; do
    [ -z "$s" ] || echo "skipped layer: $s"
  done
  if [ "${CI:-}" = true ] && [ "$skipped" -gt 0 ]; then
    echo "a skip fails here: CI=true"
    failed=$((failed + 1))
  fi
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}

need_go
go build -o "$work/bin/" ./test/tally ./cmd/modeldock || die "modeldock does not build"
tally="$work/bin/tally"
export MODELDOCK_BIN="$work/bin/modeldock"
chmod 755 "$work" "$work/bin"

if [ "$mode" = quick ]; then
  layer "generated code matches its sources" scripts/generated.sh check
  layer "go vet" go vet ./...
  say "go tests"
  "$tally" -count=1 -short ./...
  if command -v npm >/dev/null; then
    (cd console && npm_ci) && vitest "console unit tests"
  else
    skip_layer "console" "Node.js is not installed"
  fi
  finish
  exit
fi

need_node
# Whoever cannot have a server has a failing layer, not a skipped one.
if ! install_packages chromium fonts-noto-cjk; then
  skip_layer "browser" "Chromium is missing"
fi
layer "MariaDB and Redis are installed" bash -c '. scripts/lib.sh; install_packages mariadb-server redis-server'

# The linter is the longest build and needs nothing of ours: it is made beside
# the console and the unit tests. Tests on a real Kubernetes are opt-in so far:
# make cluster.
(need_golangci) >"$work/golangci.log" 2>&1 &
linter=$!

layer "console build" build_console
# The binary that the browser and the peers talk to has the console inside.
go build -o "$work/bin/modeldock" ./cmd/modeldock || die "modeldock does not build"
layer "generated code matches its sources" scripts/generated.sh check
layer "go vet" go vet -tags "peers soak engines mariadb redis cluster" ./...
layer "builds without a C compiler" env CGO_ENABLED=0 go build ./...

say "go tests with the race detector"
"$tally" -race -count=1 -timeout 20m $(go list ./... | grep -v -e /test/scenario -e /internal/architecture)
say "the ledger on MariaDB, with the race detector"
"$tally" -race -count=1 -timeout 15m -tags mariadb -run MySQL ./internal/budget/sqlledger/
"$tally" -count=1 -timeout 10m -tags mariadb -run MariaDB ./bench/marathon
say "limits, cached answers and measured memory in Redis, with the race detector"
"$tally" -race -count=1 -timeout 10m -tags redis ./internal/traffic/limit/redislimit/ ./internal/traffic/cache/rediscache/ ./internal/traffic/gateway/ ./internal/device/measured/redismeasured/
say "scenarios on one machine, architecture"
"$tally" -count=1 -timeout 15m ./test/scenario/... ./internal/architecture/...
say "two management APIs on one MariaDB"
"$tally" -count=1 -tags mariadb -timeout 15m -run 'TwoManagementAPIs|Shared' ./test/scenario/...
say "one machine with a Redis that dies"
"$tally" -count=1 -tags redis -timeout 10m -run Redis ./test/scenario/...
say "soak, short form: kill -9 of any of six processes on one MariaDB for 30 s"
MODELDOCK_SOAK_SECONDS=30 "$tally" -count=1 -tags "soak mariadb" -timeout 10m -run KillAny ./test/scenario/...
say "soak, short form: kill -9 under load, 5 times"
MODELDOCK_SOAK_KILLS=5 "$tally" -count=1 -tags soak -timeout 10m -run KillNine ./test/scenario/...
say "peers: the official OpenAI clients"
(cd test/peers/node && npm_ci) >"$work/out" 2>&1 || cat "$work/out"
"$tally" -count=1 -tags peers -timeout 10m ./test/peers/...
vitest "console unit tests"
layer "console lint" npm --prefix console run --silent lint
layer "console format" npm --prefix console run --silent format:check
if command -v chromium >/dev/null; then
  vitest "browser tests" --config vitest.e2e.config.ts
else
  skip_layer "browser" "Chromium is missing"
fi
layer "benchmarks, quick form" scripts/bench.sh --quick
for target in FuzzScanRequest FuzzEventScanner; do
  layer "fuzz $target, short form" go test -run '^$' -fuzz "^$target\$" -fuzztime 200000x ./internal/traffic/gateway/wire
done
layer "fuzz FuzzMerge, short form" go test -run '^$' -fuzz '^FuzzMerge$' -fuzztime 100000x ./internal/traffic/route/kube
wait "$linter" || cat "$work/golangci.log"
need_golangci
layer "golangci-lint" "$golangci" run ./...
finish
