#!/usr/bin/env bash
# Builds container images without a daemon, from static programs and nothing
# else: bin/images/NAME (an OCI layout) and bin/images/NAME.tar (for docker
# load, ctr images import, kind load). The same commit gives the same bytes.
#   scripts/image.sh [TAG]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh
need_go
tag="${1:-$(git describe --tags --always --dirty 2>/dev/null || echo dev)}"
repository="${REPOSITORY:-}"
export CGO_ENABLED=0 GOOS=linux GOARCH="${GOARCH:-$(go env GOARCH)}"

# static FOLDER PACKAGE NAME builds one program as its image has it.
static() {
  (cd "$1" && go build -trimpath -buildvcs=false -ldflags "-s -w -buildid= -X main.version=$tag" -o "$OLDPWD/bin/static/$3" "$2")
}

mkdir -p bin/static bin/images
need_node
build_console
static . ./cmd/modeldock modeldock
names=(modeldock)
# The scheduler is a module of its own; a checkout without it has one image less.
if [ -f scheduler/go.mod ]; then
  static scheduler ./cmd/modeldock-scheduler modeldock-scheduler
  names+=(modeldock-scheduler)
fi
(cd deploy/image && GOOS='' GOARCH='' go build -o ../../bin/image .)
for name in "${names[@]}"; do
  bin/image --binary "bin/static/$name" --name "${repository:+$repository/}$name:$tag" --revision "$(git rev-parse HEAD 2>/dev/null || true)" --out bin/images
done
