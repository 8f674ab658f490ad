// Package deploy embeds the manifests that an installation starts from. They
// are files of the Helm chart, which is their only home.
package deploy

import (
	"embed"
	"fmt"
	"strings"
)

// CRDs holds the custom resource definitions, in the folder charts/modeldock/crds.
//
//go:embed charts/modeldock/crds
var CRDs embed.FS

// Rights holds accounts and rights of every process, one file each in the
// folder charts/modeldock/rights, for the namespace that System has.
//
//go:embed charts/modeldock/rights
var Rights embed.FS

// RightsOf returns the files of Rights that have these names.
func RightsOf(names ...string) (string, error) {
	var parts []string
	for _, name := range names {
		text, err := Rights.ReadFile("charts/modeldock/rights/" + name + ".yaml")
		if err != nil {
			return "", fmt.Errorf("read the rights of %s: %w", name, err)
		}
		parts = append(parts, string(text))
	}
	return strings.Join(parts, "\n---\n"), nil
}

// System is the manifest of the namespace of an installation without Helm.
//
//go:embed system.yaml
var System string

// DeviceClass is what a cluster needs whose agents deliver cards by dynamic
// resource allocation.
//
//go:embed charts/modeldock/cards/deviceclass.yaml
var DeviceClass string

// SchedulerConfig is the configuration of modeldock-scheduler.
//
//go:embed charts/modeldock/cards/scheduler.yaml
var SchedulerConfig string

// BufferPriority is the PriorityClass of Pods that keep room for warm pools.
//
//go:embed charts/modeldock/cards/priority.yaml
var BufferPriority string

// Policies holds what the API server refuses and adds by itself, in the folder
// charts/modeldock/policies. Where cards come by claims, those that ClaimPolicies
// names are enough.
//
//go:embed charts/modeldock/policies
var Policies embed.FS

// ClaimPolicies are the files of Policies that concern every container,
// whichever way cards come.
func ClaimPolicies() []string { return []string{"decision.yaml", "void.yaml"} }
