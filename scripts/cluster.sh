#!/usr/bin/env bash
# Starts and stops a real Kubernetes on this machine, without Docker; see
# docs/cluster.md. The first `up` builds it.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh
need_go
if [ "${1:-}" = up ]; then
  [ "$(uname -s)" = Linux ] || die "real nodes need Linux"
  need_cluster_programs kubernetes etcd containerd kwok
  install_packages mariadb-server
fi
(cd test/cluster && CGO_ENABLED=0 go build -o ../../bin/cluster ./cmd/cluster)
if [ "${1:-}" = up ]; then
  verb=$1
  shift
  build_console
  CGO_ENABLED=0 go build -o bin/cluster-modeldock ./cmd/modeldock
  CGO_ENABLED=0 go build -C scheduler -ldflags "-s -w" -o ../bin/cluster-modeldock-scheduler ./cmd/modeldock-scheduler
  exec bin/cluster "$verb" --modeldock "$PWD/bin/cluster-modeldock" --scheduler "$PWD/bin/cluster-modeldock-scheduler" "$@"
fi
exec bin/cluster "$@"
