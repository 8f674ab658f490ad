package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/placement"
)

// use is what top shows: all cards together, and who takes their memory.
type use struct {
	Cards  cardUse    `json:"cards"`
	Models []modelUse `json:"models"`
}

// cardUse sums all cards, in MiB. Measured is of the cards that MeasuredCards
// counts: simulated ones, and those not asked of late, have none.
type cardUse struct {
	Count              int    `json:"count"`
	Healthy            int    `json:"healthy"`
	Simulated          int    `json:"simulated"`
	TotalMiB           int64  `json:"totalMiB"`
	ReservedMiB        int64  `json:"reservedMiB"`
	AllocatedMiB       int64  `json:"allocatedMiB"`
	MeasuredMiB        int64  `json:"measuredMiB"`
	MeasuredCards      int    `json:"measuredCards"`
	LargestFragmentMiB int64  `json:"largestFragmentMiB"`
	LargestFragmentOn  string `json:"largestFragmentOn,omitempty"`
}

// modelUse is one version of a model that the caller may see.
type modelUse struct {
	Tenant        string `json:"tenant"`
	RequestID     string `json:"requestId"`
	Model         string `json:"model,omitempty"`
	Version       string `json:"version,omitempty"`
	Simulated     bool   `json:"simulated"`
	Cards         int    `json:"cards"`
	MemoryMiB     int64  `json:"memoryMiB"`
	ReadyReplicas int    `json:"readyReplicas"`
	Replicas      int    `json:"replicas"`
	InFlight      int    `json:"inFlight"`
	Queue         int    `json:"queue"`
	Reason        string `json:"reason,omitempty"`
}

// topEvery is how often a terminal's picture is drawn anew.
const topEvery = 2 * time.Second

func (c *cli) topCommand() *cobra.Command {
	var once bool
	cmd := &cobra.Command{
		Use: "top", Short: "Show who takes the cards' memory and who is called, the largest first", Args: cobra.NoArgs,
		Long: "Shows what all cards hold together and which models take it, the largest first. On a terminal it is drawn anew every 2 s until interrupted; with --once, another -o than table, or into a file or a pipe, it is shown once.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			conn, err := c.connect(false)
			if err != nil {
				return err
			}
			live := !once && (c.opts.output == "" || c.opts.output == "table") && isTerminal(c.out)
			for {
				u, err := readUse(cmd.Context(), conn)
				if err != nil && (!live || !passing(err)) {
					return err
				}
				if live {
					_, _ = fmt.Fprint(c.out, "\x1b[H\x1b[2J") // home, and all cleared
				}
				if err != nil {
					c.warn("%s; asking again", plain(err.Error()))
				} else if err := c.showUse(u); err != nil {
					return err
				}
				if !live {
					return nil
				}
				select {
				case <-cmd.Context().Done():
					return nil
				case <-time.After(topEvery):
				}
			}
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "show it once and end")
	return cmd
}

func readUse(ctx context.Context, conn *connection) (use, error) {
	nodes, err := document200(conn.api.ListNodesWithResponse(ctx))
	if err != nil {
		return use{}, err
	}
	models, err := document200(conn.api.ListModelsWithResponse(ctx))
	if err != nil {
		return use{}, err
	}
	return useOf(nodes.Items, models.Items), nil
}

// useOf joins what cards hold with what is served, by request. What holds
// memory and is not served, and what is served and holds none, is shown too;
// other tenants' memory is in the sums alone.
func useOf(nodes []openapi.Node, models []openapi.ServedModel) use {
	u := use{Models: []modelUse{}}
	type key struct{ tenant, id string }
	at := map[key]int{}
	of := func(tenant, id string) *modelUse {
		k := key{tenant, id}
		i, known := at[k]
		if !known {
			i = len(u.Models)
			at[k] = i
			u.Models = append(u.Models, modelUse{Tenant: tenant, RequestID: id})
		}
		return &u.Models[i]
	}
	for _, m := range models {
		for _, v := range m.Versions {
			one := of(m.Owner, v.RequestId)
			one.Model, one.Version, one.Simulated, one.Reason = m.Name, v.Version, is(v.Simulated), text(v.Reason)
			one.ReadyReplicas, one.Replicas, one.InFlight, one.Queue = v.ReadyReplicas, v.Replicas, v.InFlight, v.Queue
		}
	}
	for _, n := range nodes {
		for _, card := range n.Cards {
			u.Cards.add(n.Node, card)
			for _, a := range card.Allocations {
				if a.Tenant != "" {
					one := of(a.Tenant, a.RequestId)
					one.Cards, one.MemoryMiB = one.Cards+1, one.MemoryMiB+a.Mib
				}
			}
		}
	}
	slices.SortFunc(u.Models, func(a, b modelUse) int {
		return cmp.Or(
			cmp.Compare(b.MemoryMiB, a.MemoryMiB), cmp.Compare(b.InFlight+b.Queue, a.InFlight+a.Queue),
			cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.RequestID, b.RequestID),
		)
	})
	return u
}

func (u *cardUse) add(node string, card openapi.Card) {
	u.Count++
	u.TotalMiB, u.ReservedMiB, u.AllocatedMiB = u.TotalMiB+card.TotalMiB, u.ReservedMiB+card.ReservedMiB, u.AllocatedMiB+card.AllocatedMiB
	if card.Healthy {
		u.Healthy++
	}
	if card.Simulated {
		u.Simulated++
	}
	old := card.MeasuredAgeSeconds != nil && *card.MeasuredAgeSeconds > placement.MeasuredFor.Seconds()
	if card.MeasuredMiB != nil && !old {
		u.MeasuredMiB, u.MeasuredCards = u.MeasuredMiB+*card.MeasuredMiB, u.MeasuredCards+1
	}
	if card.FreeMiB > u.LargestFragmentMiB {
		u.LargestFragmentMiB, u.LargestFragmentOn = card.FreeMiB, fmt.Sprintf("%s, card %d", node, card.Index)
	}
}

func (c *cli) showUse(u use) error {
	t := table{head: []string{"REQUEST", "MODEL", "CARDS", "MEMORY MiB", "SHARE", "READY", "IN FLIGHT", "QUEUE", "REASON"}}
	var names []string
	for _, m := range u.Models {
		name := m.Model
		if m.Version != "" {
			name += " " + m.Version
		}
		if m.Simulated {
			name += " (simulated)"
		}
		names = append(names, m.Tenant+"/"+m.RequestID)
		t.add(m.Tenant+"/"+m.RequestID, name, fmt.Sprint(m.Cards), fmt.Sprint(m.MemoryMiB), share(m.MemoryMiB, u.Cards.TotalMiB),
			fmt.Sprintf("%d/%d", m.ReadyReplicas, m.Replicas), fmt.Sprint(m.InFlight), fmt.Sprint(m.Queue), m.Reason)
	}
	if c.opts.output == "" || c.opts.output == "table" {
		_, _ = fmt.Fprintln(c.out, u.Cards)
	}
	return c.print(u, names, t)
}

// String is one line for a person.
func (u cardUse) String() string {
	if u.Count == 0 {
		return "no cards are known"
	}
	line := fmt.Sprintf("%d cards, %d healthy", u.Count, u.Healthy)
	if u.Simulated > 0 {
		line += fmt.Sprintf(", %d simulated", u.Simulated)
	}
	line += fmt.Sprintf(": %d of %d MiB allocated (%s), %d reserved", u.AllocatedMiB, u.TotalMiB, share(u.AllocatedMiB, u.TotalMiB), u.ReservedMiB)
	if u.MeasuredCards > 0 {
		line += fmt.Sprintf(", %d measured on %d", u.MeasuredMiB, u.MeasuredCards)
	}
	if u.LargestFragmentMiB == 0 {
		return line + "; nothing is free"
	}
	return line + fmt.Sprintf("; largest fragment %d MiB (%s)", u.LargestFragmentMiB, u.LargestFragmentOn)
}

func share(part, of int64) string {
	if of <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(of))
}
