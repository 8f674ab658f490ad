package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"modeldock.io/internal/api/openapi"
)

// scaling reads the report of a request, named by its id or by its model.
func (conn *connection) scaling(ctx context.Context, name string) (*openapi.ScalingReport, error) {
	report, err := document200(conn.api.GetScalingWithResponse(ctx, name, &openapi.GetScalingParams{Tenant: conn.whose()}))
	var exit *exitError
	if !errors.As(err, &exit) || exit.code != exitNotFound {
		return report, err
	}
	state := openapi.StateReserved
	live, listErr := document200(conn.api.ListRequestsWithResponse(ctx, &openapi.ListRequestsParams{Model: &name, State: &state, Tenant: conn.whose()}))
	if listErr != nil || len(live.Items) != 1 {
		return nil, err // no id, and no model or several versions of one
	}
	return document200(conn.api.GetScalingWithResponse(ctx, live.Items[0].Id, &openapi.GetScalingParams{Tenant: conn.whose()}))
}

func listed[T any](l *[]T) []T {
	if l == nil {
		return nil
	}
	return *l
}

// explainScaling prints why a model has the number of replicas that it has.
func (c *cli) explainScaling(r openapi.ScalingReport) error {
	if c.opts.output != "table" && c.opts.output != "" {
		return c.print(r, []string{r.Id}, table{})
	}
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(c.out, format, args...) }
	by := string(r.Actuator)
	if r.Paused {
		by += ", paused"
	}
	p("%s/%s: %d of %d replicas ready, between %d and %d (by %s)\n", r.Tenant, r.Id, r.Ready, r.Running, r.Min, r.Max, by)
	p("  asked for %d, paid for %d\n", r.Wanted, r.Funded)
	if r.Asleep != nil {
		p("  asleep in host memory: %d\n", *r.Asleep)
	}
	if r.Latest != nil {
		p("\n%s\n", c.scalingLine(*r.Latest))
		for _, in := range listed(r.Latest.Inputs) {
			p("  %s\n", inputLine(in))
		}
		if m := listed(r.Latest.Missing); len(m) > 0 {
			p("  %s\n", c.paint(colourPending, "not known: "+plain(strings.Join(m, ", "))+"; nothing shrinks meanwhile"))
		}
		if l := listed(r.Latest.LimitedBy); len(l) > 0 {
			p("  limited by %s\n", plain(strings.Join(l, ", ")))
		}
	}
	if r.Note != nil {
		p("\n%s\n", plain(*r.Note))
	}
	if len(r.Items) > 0 {
		p("\nchanges, newest first:\n")
	}
	for _, d := range r.Items {
		p("  %s\n", c.scalingLine(d))
	}
	return nil
}

// scalingLine is one decision: when, from and to, why.
func (c *cli) scalingLine(d openapi.ScalingDecision) string {
	change := fmt.Sprintf("%d → %d", d.From, d.To)
	if d.From == d.To {
		change = fmt.Sprintf("stays at %d", d.To)
	}
	return fmt.Sprintf("%s  %-10s %s  %s", time.Time(d.At).Local().Format("15:04:05"), change, plain(d.Reason), c.paint(colourFaint, plain(text(d.Message))))
}

func inputLine(in openapi.ScalingInput) string {
	if in.Value == nil {
		return fmt.Sprintf("%-34s not known, target %g", plain(in.Metric), in.Target)
	}
	return fmt.Sprintf("%-34s %.4g of %g: %d replicas", plain(in.Metric), *in.Value, in.Target, in.Proposal)
}
