//go:build tools

// Package kwok names the program that scripts/cluster-build.sh builds from this
// module: the kubelet of nodes that exist on paper only.
package kwok

import _ "sigs.k8s.io/kwok/cmd/kwok"
