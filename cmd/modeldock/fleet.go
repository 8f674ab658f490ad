package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/placement"
)

func (c *cli) modelsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "models", Short: "List the models that you may call", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conn, err := c.connect(false)
			if err != nil {
				return err
			}
			doc, err := document200(conn.api.ListModelsWithResponse(cmd.Context()))
			if err != nil {
				return err
			}
			t := table{head: []string{"MODEL", "VERSION", "ENGINE", "READY", "WEIGHT", "IN FLIGHT", "QUEUE", "REQUEST", "REASON"}}
			var names []string
			for _, m := range doc.Items {
				names = append(names, m.Owner+"/"+m.Name)
				for _, v := range m.Versions {
					t.add(m.Owner+"/"+m.Name, v.Version, engineName(v), fmt.Sprintf("%d/%d", v.ReadyReplicas, v.Replicas), fmt.Sprint(v.Weight), fmt.Sprint(v.InFlight), fmt.Sprint(v.Queue), v.RequestId, text(v.Reason))
				}
			}
			return c.print(*doc, names, t)
		},
	}
}

func engineName(v openapi.ModelVersion) string {
	if is(v.Simulated) && text(v.Engine) != "simulated" {
		return text(v.Engine) + " (simulated)"
	}
	return text(v.Engine)
}

func (c *cli) nodesCommand() *cobra.Command {
	return &cobra.Command{
		Use: "nodes", Short: "List nodes and cards with what holds their memory", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conn, err := c.connect(false)
			if err != nil {
				return err
			}
			doc, err := document200(conn.api.ListNodesWithResponse(cmd.Context()))
			if err != nil {
				return err
			}
			t := table{head: []string{"NODE", "CARD", "MODEL", "TOTAL MiB", "RESERVED", "ALLOCATED", "MEASURED", "FREE", "ISOLATION", "HEALTHY", "HOLDS"}}
			var names []string
			for _, n := range doc.Items {
				names = append(names, n.Node)
				for _, card := range n.Cards {
					t.add(n.Node, fmt.Sprintf("%d", card.Index), cardName(card), fmt.Sprint(card.TotalMiB), fmt.Sprint(card.ReservedMiB),
						fmt.Sprint(card.AllocatedMiB), measured(card), fragment(n, card), string(card.Isolation), fmt.Sprint(card.Healthy), holds(card))
				}
			}
			return c.print(*doc, names, t)
		},
	}
}

// measured is what is really used on a card, as far as it is known and new
// enough to be counted.
func measured(card openapi.Card) string {
	switch {
	case card.MeasuredMiB == nil:
		return "-"
	case card.MeasuredAgeSeconds != nil && *card.MeasuredAgeSeconds > placement.MeasuredFor.Seconds():
		return fmt.Sprintf("%d (%.0f s old)", *card.MeasuredMiB, *card.MeasuredAgeSeconds)
	case card.UnaccountedMiB > 0:
		return fmt.Sprintf("%d (%d by others)", *card.MeasuredMiB, card.UnaccountedMiB)
	}
	return fmt.Sprint(*card.MeasuredMiB)
}

// fragment is what one request can get on a card; the node's largest is marked.
func fragment(n openapi.Node, card openapi.Card) string {
	if card.FreeMiB > 0 && card.FreeMiB == n.LargestFragmentMiB {
		return fmt.Sprint(card.FreeMiB, " (largest)")
	}
	return fmt.Sprint(card.FreeMiB)
}

func cardName(card openapi.Card) string {
	if card.Simulated && !strings.Contains(strings.ToLower(card.Model), "simulated") {
		return card.Model + " (simulated)"
	}
	return card.Model
}

// holds names what takes a card's memory: each request that the caller may see, then the other
// tenants' as one sum, so that one's own are never cut off by theirs.
func holds(card openapi.Card) string {
	parts := make([]string, 0, len(card.Allocations)+1)
	others, mib := 0, int64(0)
	for _, a := range card.Allocations {
		if a.Tenant == "" {
			others, mib = others+1, mib+a.Mib
			continue
		}
		parts = append(parts, fmt.Sprintf("%s/%s: %d", a.Tenant, a.RequestId, a.Mib))
	}
	switch others {
	case 0:
	case 1:
		parts = append(parts, fmt.Sprintf("another tenant: %d", mib))
	default:
		parts = append(parts, fmt.Sprintf("%d of other tenants: %d", others, mib))
	}
	return strings.Join(parts, ", ")
}
