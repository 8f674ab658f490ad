#!/usr/bin/env bash
# What a release consists of, and what is looked at before.
#   scripts/release.sh check VERSION   is this commit fit to be VERSION?
#   scripts/release.sh build VERSION   programs, images, chart, lists and checksums into bin/release
# The same commit and Go release give the same programs, images and lists.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh
govulncheck_version=v1.9.0

# check names everything at once that keeps this commit from being VERSION.
check() {
  local version=$1 wrong=0 name newest
  missing() { printf 'not fit: %s\n' "$*" >&2; wrong=1; }
  [[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] || missing "\"$version\" is no version such as 0.2.0"
  [ -z "$(git status --porcelain)" ] || missing "the working tree has changes that are not committed"
  grep -q "^## $version\b" CHANGELOG.md || missing "CHANGELOG.md has no chapter \"## $version\""
  for name in version appVersion; do
    grep -Eq "^$name: \"?$version\"?\$" deploy/charts/modeldock/Chart.yaml || missing "$name of the chart is not $version"
  done
  for name in sqlite mysql; do
    newest=$(ls internal/budget/sqlledger/migrations/$name | tail -n 1)
    newest=$((10#${newest%%_*}))
    [ -f "internal/budget/sqlledger/testdata/schemas/$name-$newest.sql" ] ||
      missing "no ledger of schema version $newest is kept for $name: see internal/budget/sqlledger/testdata/schemas/README.md"
  done
  scripts/generated.sh check >/dev/null || missing "generated code is not that of its sources: make generate"
  go run ./deploy/licences >/dev/null || missing "a licence of others (above)"
  known_in_go
  known_in_console
  [ "$wrong" = 0 ] && say "this commit is fit to be $version"
}

# known_in_go looks for known vulnerabilities that our Go code calls. It asks
# https://vuln.go.dev, or the copy that VULNDB names (file:///…).
known_in_go() {
  local tool="$cache/govulncheck-$govulncheck_version/govulncheck" database="${VULNDB:-https://vuln.go.dev}" folder why
  if [ ! -x "$tool" ] && ! why=$(GOBIN="$(dirname "$tool")" GOFLAGS=-mod=mod go install "golang.org/x/vuln/cmd/govulncheck@$govulncheck_version" 2>&1); then
    missing "govulncheck $govulncheck_version cannot be installed, so nobody looked for known vulnerabilities of Go modules: ${why##*$'\n'}"
    return
  fi
  if [[ $database == http* ]] && ! why=$(curl -fsS -m 20 -o /dev/null "$database/index/db.json" 2>&1); then
    missing "known vulnerabilities of Go modules could not be looked up: $database does not answer (${why#curl: }); run this where it does, or name a copy by VULNDB=file:///…"
    return
  fi
  for folder in . scheduler; do
    "$tool" -db "$database" -C "$folder" ./cmd/... || missing "$folder/cmd calls what has known vulnerabilities (above)"
  done
}

# known_in_console looks for those of what the console is bundled from.
known_in_console() {
  local said
  if ! command -v npm >/dev/null; then
    missing "npm is not installed, so nobody looked for known vulnerabilities of the console"
  elif ! said=$(cd console && npm audit --omit=dev --audit-level=high --json 2>/dev/null); then
    if node -e 'process.exit(JSON.parse(require("fs").readFileSync(0)).vulnerabilities ? 0 : 1)' <<<"$said" 2>/dev/null; then
      (cd console && npm audit --omit=dev --audit-level=high) >&2 || true
      missing "the console is bundled from what has known vulnerabilities (above)"
    else
      missing "known vulnerabilities of the console could not be looked up: $(npm config get registry) does not answer npm audit; run this where it does"
    fi
  fi
}

# console_components lists what the console is bundled from, without what npm
# makes anew each time.
console_components() {
  (cd console && npm sbom --omit=dev --package-lock-only --sbom-format=cyclonedx) | node -e '
    const list = JSON.parse(require("fs").readFileSync(0)); delete list.serialNumber; delete list.metadata.timestamp
    if (!list.components?.length) { throw new Error("npm names no components of the console") }
    console.log(JSON.stringify(list, null, 2))'
}

# build makes everything that is given away, with a checksum for each file.
build() {
  local version=$1 out=bin/release arch program helm
  rm -rf "$out" && mkdir -p "$out"
  need_node && build_console
  (cd deploy/image && go build -o ../../bin/image .)
  for arch in amd64 arm64; do
    program="$out/modeldock-$version-linux-$arch"
    CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build -trimpath -buildvcs=false -ldflags "-s -w -buildid= -X main.version=$version" -o "$program" ./cmd/modeldock
    bin/image --binary "$program" --version "$version" --components "$program.cdx.json"
  done
  console_components >"$out/modeldock-$version-console.cdx.json"
  scripts/image.sh "$version"
  cp bin/images/*.tar "$out/"
  helm=$(ls "$cache"/helm-*/helm 2>/dev/null | tail -n 1)
  helm=${helm:-$(command -v helm || true)}
  [ -n "$helm" ] || die "helm is needed to package the chart: scripts/cluster-build.sh helm"
  "$helm" package deploy/charts/modeldock --version "$version" --app-version "$version" --destination "$out" >/dev/null
  go run ./deploy/licences --out "$out/licences.csv"
  (cd "$out" && sha256sum -- * >SHA256SUMS)
  say "$out:"
  cat "$out/SHA256SUMS"
}

need_go
case "${1:-} ${2:-}" in
"check "?*) check "$2" ;;
"build "?*) build "$2" ;;
*) die "usage: scripts/release.sh check|build VERSION" ;;
esac
