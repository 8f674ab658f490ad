#!/usr/bin/env bash
# Builds the programs of the test cluster (Kubernetes, etcd, containerd, KWOK)
# once per version into the cache, unless this machine has them, and installs
# runc and the CNI plugins. Arguments name what to build; default: everything but
# KEDA, which only its own opt-in tests need.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh
need_go
need_cluster_programs "$@"
