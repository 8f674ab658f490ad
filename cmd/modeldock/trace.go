package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/api/wiretime"
)

func (c *cli) traceCommand() *cobra.Command {
	return &cobra.Command{
		Use: "trace REQUEST-ID", Short: "Show what became of one inference request", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			conn, err := c.connect(false)
			if err != nil {
				return err
			}
			doc, err := document200(conn.api.GetTraceWithResponse(cmd.Context(), args[0]))
			if err != nil {
				return err
			}
			return c.print(*doc, []string{doc.RequestId}, traceTable(*doc))
		},
	}
}

func traceTable(t openapi.Trace) table {
	out := table{head: []string{"STEP", "AFTER", "DETAIL"}}
	start := time.Time(t.ReceivedAt)
	step := func(name string, at *wiretime.Time, detail string) {
		if at != nil {
			out.add(name, fmt.Sprintf("%.1f ms", float64(at.Std().Sub(start).Microseconds())/1000), detail)
		}
	}
	model := t.Model
	if t.Version != nil {
		model += "@" + *t.Version
	}
	step("received", &t.ReceivedAt, fmt.Sprintf("%s from %s for %s at %s", t.Path, t.Tenant, model, start.Local().Format("15:04:05.000")))
	sent := "to a replica of " + text(t.Owner)
	if t.Reservation != nil { // another owner's is not told
		sent = "to replica " + text(t.EndpointUid) + " of request " + text(t.Reservation)
	}
	step("sent", t.SentAt, sent)
	step("first byte", t.FirstByteAt, "")
	step("first chunk", t.FirstContentAt, "flushed to the caller")
	step("last byte", t.LastByteAt, "")
	step("done", t.DoneAt, "written and flushed to the caller")
	detail := fmt.Sprintf("status %d", t.Status)
	if t.CompletionTokens != nil {
		detail += fmt.Sprintf(", %d tokens", *t.CompletionTokens)
	}
	if t.Error != nil {
		detail += ", " + *t.Error
	}
	out.add(first(text(t.Outcome), "streaming"), "", detail)
	return out
}
