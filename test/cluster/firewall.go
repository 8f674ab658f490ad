package cluster

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// Machines with a firewall, or with Docker, drop what they do not know: packets
// between Pods where bridged traffic is filtered too (bridge-nf-call-iptables),
// and packets from Pods to the API server. Rules for the cluster's bridge alone
// let both pass.
func firewallRules(bridge string) [][]string {
	return [][]string{
		{"FORWARD", "-i", bridge, "-o", bridge, "-j", "ACCEPT"},
		{"INPUT", "-i", bridge, "-j", "ACCEPT"},
	}
}

// openFirewall adds the rules where iptables is installed. A firewall without
// it is the administrator's to open.
func openFirewall(ctx context.Context, bridge string) error {
	for _, rule := range firewallRules(bridge) {
		if err := iptables(ctx, append([]string{"-I"}, rule...)...); err != nil && !errors.Is(err, exec.ErrNotFound) {
			return fmt.Errorf("let Pods through the firewall: %w", err)
		}
	}
	return nil
}

// closeFirewall removes the rules.
func closeFirewall(ctx context.Context, bridge string) error {
	for _, rule := range firewallRules(bridge) {
		if err := iptables(ctx, append([]string{"-C"}, rule...)...); err != nil {
			continue // it is not there, or there is no iptables
		}
		if err := iptables(ctx, append([]string{"-D"}, rule...)...); err != nil {
			return fmt.Errorf("remove a rule from the firewall: %w", err)
		}
	}
	return nil
}

func iptables(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, "iptables", append([]string{"-w", "10"}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("iptables %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
