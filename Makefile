# Everyday commands. The two that a newcomer needs are scripts/start.sh and
# scripts/test.sh; these are the parts they are made of.

.PHONY: build image release licences cluster keda console test quick lint generate metrics reference verify bench soak fuzz

build:
	. scripts/lib.sh && build_binaries

# Container images, without a daemon, into bin/images.
image:
	scripts/image.sh

# Everything that is given away, with lists and checksums: make release VERSION=0.1.0
release:
	scripts/release.sh build $(VERSION)

# What our programs are made of, and under which licences.
licences:
	go run ./deploy/licences

console:
	. scripts/lib.sh && need_node && build_console

test:
	./scripts/test.sh

quick:
	./scripts/test.sh quick

# All tests on a real Kubernetes, which is built the first time. Needs root.
cluster:
	./scripts/test.sh cluster

# Models scaled by the real KEDA, built the first time. Needs root and patience.
keda:
	./scripts/test.sh keda

lint:
	. scripts/lib.sh && need_golangci && "$$golangci" run ./... && cd test/cluster && "$$golangci" run --build-tags cluster,keda --config ../../.golangci.yaml ./... && cd ../../scheduler && "$$golangci" run --config ../.golangci.yaml ./... && cd ../bench/schedulerperf && "$$golangci" run --config ../../.golangci.yaml ./...

# The generators' versions; what they make is committed and checked by hash.
SQLC = github.com/sqlc-dev/sqlc/cmd/sqlc@v1.31.1
CONTROLLER_GEN = sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0
OAPI = github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2

generate:
	go run $(OAPI) -config api/oapi-codegen.yaml api/openapi.yaml
	cd internal/budget/sqlledger && go run $(SQLC) generate
	go run $(CONTROLLER_GEN) object crd paths=./api/v1alpha1 output:crd:dir=deploy/charts/modeldock/crds
	cd console && npm run --silent generate
	scripts/generated.sh write

# docs/metrics.md, from what the processes register.
metrics:
	MODELDOCK_WRITE_DOCS=1 go test -count=1 -run MetricsReference ./internal/app

# All of the reference that is made from code: metrics, command line, management
# API, custom resource.
reference: metrics
	MODELDOCK_WRITE_DOCS=1 go test -count=1 -run Reference ./cmd/modeldock ./internal/api ./deploy

verify:
	scripts/generated.sh check

bench:
	scripts/bench.sh

# The long real-time forms of what CI runs scaled down.
soak:
	MODELDOCK_SOAK_SECONDS=300 go test -count=1 -tags "soak mariadb" -timeout 60m -run KillAny -v ./test/scenario/...
	MODELDOCK_OUTAGE_SECONDS=600 go test -count=1 -tags "mariadb redis" -timeout 30m -run OutageBehind -v ./test/scenario/...
	cd test/cluster && MODELDOCK_STORM=long CGO_ENABLED=0 go test -count=1 -timeout 30m -tags cluster -run Storm -v ./placement
	cd test/cluster && MODELDOCK_FAULTS=long MODELDOCK_SOAK_SECONDS=1800 CGO_ENABLED=0 go test -count=1 -parallel 1 -timeout 120m -v ./faults
	go test -count=1 -tags soak -timeout 60m -run 'HostileStreams|ColdStartEstimates|GreedyTenant$$|LeavingAtRandom|ColdModelIsFlooded' -v ./internal/traffic/gateway
	MODELDOCK_SOAK_KILLS=50 go test -count=1 -tags soak -timeout 60m -run KillNine -v ./test/scenario/...

fuzz:
	go test -run '^$$' -fuzz '^FuzzScanRequest$$' -fuzztime 2m ./internal/traffic/gateway/wire
	go test -run '^$$' -fuzz '^FuzzEventScanner$$' -fuzztime 2m ./internal/traffic/gateway/wire
	go test -run '^$$' -fuzz '^FuzzScanForm$$' -fuzztime 2m ./internal/traffic/gateway/wire
	go test -run '^$$' -fuzz '^FuzzChunks$$' -fuzztime 2m ./internal/traffic/upstream
