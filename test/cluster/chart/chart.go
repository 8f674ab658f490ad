// Package chart is the harness of the Helm chart's tests: it renders the chart,
// and installs it on a test cluster whose controllers and gateways are then
// Pods, with the database outside.
package chart

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"

	"modeldock.io/test/cluster/binaries"
)

// Folder is where the chart is, seen from the folder of this package.
const Folder = "../../../deploy/charts/modeldock"

// Helm runs one program for all of a test's commands.
type Helm struct {
	Program    string
	Kubeconfig string // empty: only what needs no cluster works
}

// FindHelm finds the program that scripts/cluster-build.sh builds.
func FindHelm(ctx context.Context, kubeconfig string) (Helm, error) {
	cache, err := binaries.CacheDir()
	if err != nil {
		return Helm{}, err
	}
	found, err := binaries.Find(ctx, cache, "helm")
	if err != nil {
		return Helm{}, err
	}
	return Helm{Program: found["helm"], Kubeconfig: kubeconfig}, nil
}

// Run runs one command and returns what it prints.
func (h Helm) Run(ctx context.Context, args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, h.Program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+h.Kubeconfig)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("helm %s: %w: %s", args[0], err, errs.String())
	}
	return out.String(), nil
}
