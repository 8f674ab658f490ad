//go:build tools

// Package helm names the program that scripts/cluster-build.sh builds from this
// module: it renders, checks and installs the chart in tests.
package helm

import _ "helm.sh/helm/v4/cmd/helm"
