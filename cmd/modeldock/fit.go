package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/placement"
)

func (c *cli) fitCommand() *cobra.Command {
	gpus := 1
	cmd := &cobra.Command{
		Use: "fit MIB", Short: "Tell whether a model of MIB per card would fit now, and where", Args: cobra.ExactArgs(1),
		Example: "  modeldock fit 8192\n  modeldock fit 20000 --gpus 2",
		RunE: func(cmd *cobra.Command, args []string) error {
			mib, err := placement.ParseMemory(args[0])
			if err != nil {
				return usage("%v", err)
			}
			conn, err := c.connect(false)
			if err != nil {
				return err
			}
			doc, err := document200(conn.api.FitNodesWithResponse(cmd.Context(), openapi.FitQuestion{GpuMemoryMiB: mib, Gpus: &gpus}))
			if err != nil {
				return err
			}
			if err := c.print(*doc, fitting(*doc), fitTable(*doc)); err != nil {
				return err
			}
			if !doc.Fits {
				return &exitError{exitBroken, fmt.Errorf("%d MiB on %d card(s) fit nowhere: %s", mib, gpus, text(doc.Reason))}
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&gpus, "gpus", gpus, "cards of one node, all or none")
	return cmd
}

func fitting(doc openapi.Fit) []string {
	var names []string
	for _, n := range doc.Nodes {
		if n.Fits {
			names = append(names, n.Node)
		}
	}
	return names
}

// fitTable has a line for each node; the one that would be taken is marked.
func fitTable(doc openapi.Fit) table {
	t := table{head: []string{"NODE", "FITS", "CARDS", "REASON"}}
	for _, n := range doc.Nodes {
		answer := "no"
		switch {
		case n.Fits && n.Node == text(doc.Node):
			answer = "yes, chosen"
		case n.Fits:
			answer = "yes"
		}
		var cards []string
		for _, card := range n.Cards {
			cards = append(cards, fmt.Sprintf("%d (%d MiB free)", card.Index, card.FreeMiB))
		}
		name := n.Node
		if n.Simulated {
			name += " (simulated)"
		}
		t.add(name, answer, strings.Join(cards, ", "), text(n.Reason))
	}
	return t
}
