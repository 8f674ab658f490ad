//go:build tools

// Package containerd names the programs that scripts/cluster-build.sh builds
// from this module: the container runtime, its shim, and its client.
package containerd

import (
	_ "github.com/containerd/containerd/v2/cmd/containerd"
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"
	_ "github.com/containerd/containerd/v2/cmd/ctr"
)
