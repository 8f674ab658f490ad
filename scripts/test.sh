#!/usr/bin/env bash
# Runs the tests. `quick` is the inner loop (no race detector, no browser, no
# peers, no linter, no Kubernetes); without an argument everything runs, which is
# what continuous integration does, but for the autoscalers, the simulator's trace and
# the chart on a real Kubernetes. `machine` is that without Kubernetes, `cluster` is all that
# needs one, and `keda` is what the real KEDA scales there, which takes long to
# build the first time. Ends with one line: N passed, N failed, N skipped.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh
mode="${1:-full}"
case $mode in full | quick | machine | cluster | keda) ;; *) die "usage: scripts/test.sh [quick|machine|cluster|keda]" ;; esac

work=$(mktemp -d)
builds=() # process groups of what is built beside the tests
leave() {
  local group
  for group in "${builds[@]:-}"; do
    [ -z "$group" ] || kill -- "-$group" 2>/dev/null # it may have ended long ago
  done
  rm -rf "$work"
}
trap leave EXIT
export TALLY_FILE="$work/tally"
: >"$TALLY_FILE"
skipped_layers=()

# Tests save contexts of their own and never touch the caller's.
export XDG_CONFIG_HOME="$work/config"

# beside NAME COMMAND… runs a build in the background, out of the tests' way and
# in a process group of its own, which does not outlive this script. Its pid is
# in $beside, what it says in $work/NAME.log.
beside() {
  local name=$1
  shift
  set -m
  (nice -n 10 "$@" && echo "$name: built after ${SECONDS} s") >"$work/$name.log" 2>&1 &
  beside=$!
  set +m
  builds+=("$beside")
}

# part NAME begins a part, whose time is told at the end.
times=()
part_name="" part_began=0
part() {
  part_ends
  part_name=$1 part_began=$SECONDS
  say "$1"
}

part_ends() {
  [ -z "$part_name" ] || times+=("$(printf '%5d s  %s' $((SECONDS - part_began)) "$part_name")")
  part_name=""
}

# layer NAME COMMAND… runs one suite whose own tests are not counted by tally
# as one test.
layer() {
  local name=$1
  shift
  part "$name"
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
  part "$name"
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
  part_ends
  printf '%s\n' "${times[@]}"
  echo "everything took $SECONDS s"
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

# build_kubernetes begins to build Kubernetes and what tests it.
build_kubernetes() {
  kubernetes=""
  if [ "$(id -u)" != 0 ]; then
    skip_layer "Kubernetes" "real nodes need root"
    return
  fi
  layer "what containers need is installed" bash -c '. scripts/lib.sh; install_packages runc containernetworking-plugins iproute2'
  local programs="kubernetes etcd containerd kwok" modules="scheduler"
  if [ "$mode" = cluster ]; then
    programs+=" helm prometheus" modules+=" bench/schedulerperf"
  fi
  beside kubernetes bash -c "scripts/cluster-build.sh $programs"' && CGO_ENABLED=0 go vet -C test/cluster -tags cluster ./... && for m in '"$modules"'; do CGO_ENABLED=0 go vet -C $m ./... || exit; done'
  kubernetes=$beside
}

# on_kubernetes runs what needs a real cluster: the cluster's own tests, the
# stories and every broken link on real Pods, and what ModelDock survives. They
# mostly wait for Pods, so that more run at once than there are cores; those of
# the faults have the machine for themselves. Clusters end with their tests; what
# the kernel does not take back after a kill is given back at the end.
on_kubernetes() {
  [ -n "$kubernetes" ] || return
  part "waiting for Kubernetes, which was built beside all this"
  if ! wait "$kubernetes"; then
    cat "$work/kubernetes.log"
    echo "--- fail Kubernetes and the tests on it do not build"
    echo "0 1 0" >>"$TALLY_FILE"
    return
  fi
  tail -n 1 "$work/kubernetes.log"
  part "what nodes run is built"
  local tests=(env CGO_ENABLED=0 MODELDOCK_STATIC_BIN="$work/static/modeldock" MODELDOCK_SCHEDULER_BIN="$work/static/modeldock-scheduler" "$tally")
  CGO_ENABLED=0 go build -o "$work/static/modeldock" ./cmd/modeldock || die "modeldock does not build without a C compiler"
  CGO_ENABLED=0 go build -C scheduler -ldflags "-s -w" -o "$work/static/modeldock-scheduler" ./cmd/modeldock-scheduler || die "modeldock-scheduler does not build"
  part "the test cluster itself"
  "${tests[@]}" -C test/cluster -count=1 -timeout 10m -tags cluster . ./binaries
  part "delivery, operator, endpoints and preflight on a real API server"
  "${tests[@]}" -count=1 -timeout 15m -tags cluster ./internal/delivery/kube/ ./internal/delivery/operator/ ./internal/traffic/route/kube/ ./internal/preflight/
  part "on a real Kubernetes: the stories, and every broken link"
  "${tests[@]}" -C test/cluster -count=1 -timeout 20m -tags cluster -parallel 4 ./oncluster
  part "on a real Kubernetes: controllers killed; API server, database and controllers away for 10 s; soak, short form of 2 min"
  "${tests[@]}" -C test/cluster -count=1 -timeout 20m -tags cluster -parallel 1 ./faults
  part "the scheduler of cards, and the policies of the API server"
  "${tests[@]}" -C scheduler -count=1 -timeout 10m -tags redis ./...
  "$tally" -count=1 -timeout 10m -tags cluster ./deploy
  part "on a real Kubernetes: Pods placed by the memory of each card, and containers that see exactly theirs"
  "${tests[@]}" -C test/cluster -count=1 -timeout 20m -tags cluster -parallel 2 ./placement ./cards
  [ "$mode" != cluster ] || more_on_kubernetes
  layer "what killed clusters held is given back" env CGO_ENABLED=0 go run -C test/cluster ./cmd/cluster free
}

# more_on_kubernetes is what would make a run of everything too long, once that
# has the tests on a cluster.
more_on_kubernetes() {
  part "the autoscaler of Kubernetes: its decisions as recorded, and models scaled by it"
  "${tests[@]}" -C test/hpaparity -count=1 -timeout 10m ./...
  "${tests[@]}" -C test/cluster -count=1 -timeout 15m -tags cluster -parallel 1 ./autoscaling
  part "a recorded trace on one machine and on a cluster, and the same in the simulator"
  "${tests[@]}" -C test/cluster -count=1 -timeout 20m -tags cluster -parallel 1 ./agreement
  part "the Helm chart: installed twice, upgraded under streams, taken away; alert rules"
  "${tests[@]}" -C test/cluster -count=1 -timeout 20m -tags cluster -parallel 2 ./chart ./monitoring
}

need_go
go build -o "$work/bin/" ./test/tally ./cmd/modeldock || die "modeldock does not build"
tally="$work/bin/tally"
export MODELDOCK_BIN="$work/bin/modeldock"
chmod 755 "$work" "$work/bin"

if [ "$mode" = quick ]; then
  layer "generated code matches its sources" scripts/generated.sh check
  layer "go vet" go vet ./...
  part "go tests"
  "$tally" -count=1 -short ./...
  if command -v npm >/dev/null; then
    (cd console && npm_ci) && vitest "console unit tests"
  else
    skip_layer "console" "Node.js is not installed"
  fi
  finish
  exit
fi

if [ "$mode" = cluster ]; then
  layer "MariaDB and Redis are installed" bash -c '. scripts/lib.sh; install_packages mariadb-server redis-server'
  layer "a browser is installed" bash -c '. scripts/lib.sh; install_packages chromium'
  build_kubernetes
  # What runs on the cluster has the console inside, and a browser tells its story.
  need_node
  layer "console build" build_console
  on_kubernetes
  finish
  exit
fi

if [ "$mode" = keda ]; then
  [ "$(id -u)" = 0 ] || die "real nodes need root"
  layer "MariaDB is installed" bash -c '. scripts/lib.sh; install_packages mariadb-server'
  layer "Kubernetes, Prometheus and KEDA are built" nice -n 10 scripts/cluster-build.sh kubernetes etcd containerd kwok prometheus keda
  part "the real KEDA: load, fallback, sleep, one writer (15 min)"
  CGO_ENABLED=0 "$tally" -C test/cluster -count=1 -timeout 40m -tags "cluster keda" -run KEDA ./autoscaling
  layer "what killed clusters held is given back" env CGO_ENABLED=0 go run -C test/cluster ./cmd/cluster free
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
# the tests.
beside linter bash -c '. scripts/lib.sh; need_golangci'
linter=$beside
[ "$mode" = machine ] || build_kubernetes

layer "console build" build_console
# The binary that the browser and the peers talk to has the console inside.
go build -o "$work/bin/modeldock" ./cmd/modeldock || die "modeldock does not build"
layer "generated code matches its sources" scripts/generated.sh check
layer "go vet" go vet -tags "peers soak engines mariadb redis cluster" ./...
layer "builds without a C compiler" env CGO_ENABLED=0 go build ./...

part "go tests with the race detector"
"$tally" -race -count=1 -timeout 20m $(go list ./... | grep -v -e /test/scenario -e /internal/architecture)
part "the ledger on MariaDB, with the race detector"
"$tally" -race -count=1 -timeout 15m -tags mariadb -run MySQL ./internal/budget/sqlledger/
"$tally" -count=1 -timeout 10m -tags mariadb -run MariaDB ./bench/marathon
part "limits, cached answers and measured memory in Redis, with the race detector"
"$tally" -race -count=1 -timeout 10m -tags redis ./internal/traffic/limit/redislimit/ ./internal/traffic/cache/rediscache/ ./internal/traffic/redislink/ ./internal/traffic/gateway/ ./internal/device/measured/redismeasured/
part "scenarios on one machine, architecture"
"$tally" -count=1 -timeout 15m ./test/scenario/... ./internal/architecture/...
part "two management APIs on one MariaDB"
"$tally" -count=1 -tags mariadb -timeout 15m -run 'TwoManagementAPIs|Shared' ./test/scenario/...
part "one machine with a Redis that dies"
"$tally" -count=1 -tags redis -timeout 10m -run Redis ./test/scenario/...
part "outage, short form: controller, database and Redis behind a gateway away for 20 s"
"$tally" -count=1 -tags "mariadb redis" -timeout 10m -run OutageBehind ./test/scenario/...
part "soak, short form: kill -9 of any of six processes on one MariaDB for 30 s"
MODELDOCK_SOAK_SECONDS=30 "$tally" -count=1 -tags "soak mariadb" -timeout 10m -run KillAny ./test/scenario/...
part "soak, short form: kill -9 under load, 5 times"
MODELDOCK_SOAK_KILLS=5 "$tally" -count=1 -tags soak -timeout 10m -run KillNine ./test/scenario/...
layer "images without a daemon" bash -c 'cd deploy/image && CGO_ENABLED=0 go vet . && CGO_ENABLED=0 go test -count=1 .'
part "peers: the official OpenAI clients"
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
layer "fuzz FuzzChunks, short form" go test -run '^$' -fuzz '^FuzzChunks$' -fuzztime 100000x ./internal/traffic/upstream
layer "fuzz FuzzMerge, short form" go test -run '^$' -fuzz '^FuzzMerge$' -fuzztime 100000x ./internal/traffic/route/kube
[ "$mode" = machine ] || on_kubernetes
part "waiting for the linter, which was built beside all this"
wait "$linter" || cat "$work/linter.log"
need_golangci
layer "golangci-lint" "$golangci" run ./...
finish
