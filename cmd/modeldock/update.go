package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"modeldock.io/internal/api/openapi"
)

// updateFlags are the parts of a live request that can be changed; what was
// not given stays.
type updateFlags struct {
	least, most, weight int
	wait                bool
	timeout             time.Duration
}

func (c *cli) updateCommand() *cobra.Command {
	var f updateFlags
	cmd := &cobra.Command{
		Use:   "update ID [--min N] [--max N] [--weight N]",
		Short: "Change how many replicas a request has, or its share of the calls",
		Example: `  modeldock update demo-a --min 2 --wait
  modeldock update demo-a --weight 10`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return c.update(cmd, args[0], f) },
	}
	fl := cmd.Flags()
	fl.IntVar(&f.least, "min", 0, "replicas that always run; more are paid for at once, fewer give their slots back when they are gone")
	fl.IntVar(&f.most, "max", 0, "replicas at most")
	fl.IntVar(&f.weight, "weight", 0, "share of the calls among the versions of this model, 0 to 1000")
	fl.BoolVar(&f.wait, "wait", false, "wait until as many replicas are ready as are paid for, and surplus slots came back")
	fl.DurationVar(&f.timeout, "timeout", 5*time.Minute, "how long --wait waits")
	cmd.MarkFlagsOneRequired("min", "max", "weight")
	return cmd
}

// update changes what it has just read: if somebody else changes the request
// in between, the server refuses, and the caller decides anew.
func (c *cli) update(cmd *cobra.Command, id string, f updateFlags) error {
	conn, err := c.connect(false)
	if err != nil {
		return err
	}
	r, err := c.fetch(cmd.Context(), conn, id)
	if err != nil {
		return err
	}
	body := openapi.Patch{Generation: r.Generation}
	given := func(flag string, v *int) *int {
		if cmd.Flags().Changed(flag) {
			return v
		}
		return nil
	}
	if least, most := given("min", &f.least), given("max", &f.most); least != nil || most != nil {
		body.Replicas = &openapi.PatchedReplicas{Min: least, Max: most}
	}
	if weight := given("weight", &f.weight); weight != nil {
		body.Traffic = &openapi.TrafficShare{Weight: weight}
	}
	doc, err := document200(conn.api.PatchRequestWithResponse(cmd.Context(), id, &openapi.PatchRequestParams{Tenant: conn.whose()}, body))
	if err != nil {
		return err
	}
	if f.wait {
		return c.waitUpdated(cmd.Context(), conn, id, f.timeout)
	}
	return c.printRequest(*doc)
}

// waitUpdated waits until what runs and what is held is what is funded.
func (c *cli) waitUpdated(ctx context.Context, conn *connection, id string, timeout time.Duration) error {
	return c.poll(ctx, conn, id, timeout, func(r openapi.Request) (bool, error) {
		switch {
		case r.State == openapi.StateReleased || r.State == openapi.StateExpired || r.ReleaseRequestedAt != nil:
			return true, &exitError{exitBroken, fmt.Errorf("request %s is %s and does not change any more", id, r.State)}
		case r.State == openapi.StateReserved && r.ReadyReplicas == r.FundedReplicas && r.Held == r.Cost*int64(r.FundedReplicas):
			return true, c.printRequest(r)
		case fatalReasons[text(r.Reason)]:
			return true, &exitError{exitBroken, fmt.Errorf("request %s: %s: %s", id, text(r.Reason), plain(text(r.Message)))}
		}
		return false, nil
	})
}
