//go:build tools

// Package prometheus names the program that scripts/cluster-build.sh builds from
// this module: promtool, which runs the tests of the alert rules.
package prometheus

import _ "github.com/prometheus/prometheus/cmd/promtool"
