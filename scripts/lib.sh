# Shared by start.sh and test.sh: what the machine must have, and builds that
# are done once per version. Source it from the repository's root.

cache="${XDG_CACHE_HOME:-$HOME/.cache}/modeldock"
golangci_version=v2.15.0

say() { printf '== %s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# need_go checks for the Go release that go.mod asks for.
need_go() {
  command -v go >/dev/null || die "Go is not installed; version $(awk '/^go /{print $2}' go.mod) or newer is needed: https://go.dev/dl/"
  local want have
  want=$(awk '/^go /{print $2}' go.mod)
  have=$(go env GOVERSION | sed 's/^go//; s/[^0-9.].*//')
  [ "$(printf '%s\n%s\n' "$want" "$have" | sort -V | head -1)" = "$want" ] || die "Go $have is too old; $want or newer is needed"
}

# need_node checks for Node 20 or newer with npm.
need_node() {
  command -v node >/dev/null && command -v npm >/dev/null || die "Node.js 20 or newer with npm is needed to build the console: https://nodejs.org"
  [ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ] || die "Node $(node -v) is too old; 20 or newer is needed"
}

# console_stamp names the sources that a console build was made from.
console_stamp() {
  find console -path console/node_modules -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -d' ' -f1
}

# build_console builds the web console unless this very one is built already.
build_console() {
  local stamp=internal/console/static/app/.stamp want
  want=$(console_stamp)
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ]; then
    return
  fi
  say "building the console"
  (cd console && npm_ci && npm run --silent build)
  printf '%s\n' "$want" >"$stamp"
}

# npm_ci installs exactly what the lock file says, unless it is there.
npm_ci() {
  local want
  want=$(sha256sum package-lock.json | cut -d' ' -f1)
  if [ -f node_modules/.lock-stamp ] && [ "$(cat node_modules/.lock-stamp)" = "$want" ]; then
    return
  fi
  npm ci --no-audit --no-fund --loglevel=error && printf '%s\n' "$want" >node_modules/.lock-stamp
}

# build_binaries puts modeldock, and where a C compiler is present the NVML
# reader, into bin/. What needs no C library is a static program, as in an
# image: no loader runs before it.
build_binaries() {
  mkdir -p bin
  CGO_ENABLED=0 go build -o bin/modeldock ./cmd/modeldock
  if command -v "${CC:-gcc}" >/dev/null; then
    CGO_ENABLED=1 go build -o bin/modeldock-nvml ./cmd/modeldock-nvml
  else
    say "no C compiler: modeldock-nvml is not built, so NVIDIA cards are not seen"
  fi
}

# install_packages brings Debian packages when root, else says what is missing.
install_packages() {
  local missing=() p
  for p in "$@"; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing+=("$p")
  done
  [ ${#missing[@]} -eq 0 ] && return
  command -v apt-get >/dev/null || die "these are needed and this is no Debian or Ubuntu to install them on: ${missing[*]}"
  [ "$(id -u)" = 0 ] || die "these packages are missing; install them as root: apt-get install ${missing[*]}"
  say "installing ${missing[*]}"
  apt-get update -qq >/dev/null
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# need_golangci builds the linter once per version.
need_golangci() {
  golangci="$cache/golangci-lint-$golangci_version/golangci-lint"
  [ -x "$golangci" ] && return
  say "building golangci-lint $golangci_version"
  GOBIN="$(dirname "$golangci")" GOFLAGS=-mod=mod go install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$golangci_version"
}

# need_cluster_programs builds what the test cluster consists of, once per
# version; arguments name recipes (see test/cluster/binaries). Containers, which
# only root can run, also need programs of the distribution.
need_cluster_programs() {
  (cd test/cluster && go run ./cmd/cluster-build "$@")
  [ "$(id -u)" = 0 ] || return 0
  if ! command -v runc >/dev/null || ! command -v ip >/dev/null || ! { [ -x /usr/lib/cni/bridge ] || [ -x /opt/cni/bin/bridge ]; }; then
    install_packages runc containernetworking-plugins iproute2
  fi
}
