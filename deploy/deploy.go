// Package deploy embeds the manifests that an installation starts from. They
// are files of the Helm chart, which is their only home.
package deploy

import "embed"

// CRDs holds the custom resource definitions, in the folder charts/modeldock/crds.
//
//go:embed charts/modeldock/crds
var CRDs embed.FS

// Rights holds accounts and rights of every process, one file each in the
// folder charts/modeldock/rights, for the namespace that System has.
//
//go:embed charts/modeldock/rights
var Rights embed.FS

// System is the manifest of the namespace of an installation without Helm.
//
//go:embed system.yaml
var System string

// Agent holds the rights of node agents, in the folder agent.
//
//go:embed agent
var Agent embed.FS

// DRA holds what a cluster needs whose agents deliver cards by dynamic
// resource allocation, in the folder dra.
//
//go:embed dra
var DRA embed.FS

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
