#!/usr/bin/env bash
# Starts and stops a real Kubernetes on this machine, without Docker; see
# docs/cluster.md. The first `up` builds it.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh
need_go
if [ "${1:-}" = up ]; then
  [ "$(uname -s)" = Linux ] || die "real nodes need Linux"
  need_cluster_programs
fi
(cd test/cluster && CGO_ENABLED=0 go build -o ../../bin/cluster ./cmd/cluster)
exec bin/cluster "$@"
