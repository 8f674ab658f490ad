#!/usr/bin/env bash
# Generated code is committed; this keeps it honest without building the
# generators: the hashes of every generator's inputs and outputs stand in
# api/generated.sha256. `write` after `make generate`, `check` in the tests.
set -euo pipefail
cd "$(dirname "$0")/.."
files() {
  printf '%s\n' api/openapi.yaml api/oapi-codegen.yaml internal/api/openapi/openapi.gen.go console/src/api/schema.d.ts internal/budget/sqlledger/sqlc.yaml
  printf '%s\n' deploy/charts/modeldock/crds/modeldock.io_modelservices.yaml
  find api/v1alpha1 -type f | LC_ALL=C sort
  find internal/budget/sqlledger/migrations internal/budget/sqlledger/queries internal/budget/sqlledger/sqlitequery internal/budget/sqlledger/mysqlquery -type f | LC_ALL=C sort
}
case "${1:-}" in
  write) files | xargs sha256sum >api/generated.sha256 ;;
  check)
    if ! files | xargs sha256sum | diff -u api/generated.sha256 - ; then
      echo "generated code and its sources differ from what was generated together: run make generate" >&2
      exit 1
    fi
    ;;
  *) echo "usage: scripts/generated.sh write|check" >&2; exit 2 ;;
esac
