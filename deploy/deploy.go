// Package deploy embeds the manifests that an installation starts from.
package deploy

import "embed"

// CRDs holds the custom resource definitions, in the folder crds.
//
//go:embed crds
var CRDs embed.FS
