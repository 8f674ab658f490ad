// Package deploy embeds the manifests that an installation starts from.
package deploy

import "embed"

// CRDs holds the custom resource definitions, in the folder crds.
//
//go:embed crds
var CRDs embed.FS

// Operator holds what the operator needs on a cluster beside the custom
// resources: its account and its rights, in the folder operator.
//
//go:embed operator
var Operator embed.FS

// Processes holds the rights of controllers, gateways and agents, in the
// folders controller, gateway and agent.
//
//go:embed controller gateway agent
var Processes embed.FS

// DRA holds what a cluster needs whose agents deliver cards by dynamic
// resource allocation, in the folder dra.
//
//go:embed dra
var DRA embed.FS
