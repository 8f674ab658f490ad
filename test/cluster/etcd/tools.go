//go:build tools

// Package etcd names the program that scripts/cluster-build.sh builds from this
// module: the store of the test cluster's API server.
package etcd

import _ "go.etcd.io/etcd/server/v3"
