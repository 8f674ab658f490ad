#!/usr/bin/env bash
# Builds ModelDock and runs it on this machine. Arguments go to `modeldock up`.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh
need_go
need_node
build_console
say "building bin/modeldock"
build_binaries
exec ./bin/modeldock up "$@"
