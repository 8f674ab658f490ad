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

// Processes holds the rights of controllers and gateways, in the folders
// controller and gateway.
//
//go:embed controller gateway
var Processes embed.FS

// Scheduler holds the rights and the configuration of modeldock-scheduler, in
// the folder scheduler.
//
//go:embed scheduler
var Scheduler embed.FS

// Policies holds what the API server refuses and adds by itself, in the folder
// policies.
//
//go:embed policies
var Policies embed.FS
