//go:build tools

// Package keda names the programs that scripts/cluster-build.sh builds from this
// module when it is asked for them by name: KEDA's operator and its metrics
// adapter, for the opt-in tests of models that KEDA scales.
package keda

import (
	_ "github.com/kedacore/keda/v2/cmd/adapter"
	_ "github.com/kedacore/keda/v2/cmd/operator"
)
