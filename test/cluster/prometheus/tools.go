//go:build tools

// Package prometheus names the programs that scripts/cluster-build.sh builds from
// this module: promtool, which runs the tests of the alert rules, and the server,
// which the tests of KEDA ask.
package prometheus

import (
	_ "github.com/prometheus/prometheus/cmd/prometheus"
	_ "github.com/prometheus/prometheus/cmd/promtool"
)
