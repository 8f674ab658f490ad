package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"modeldock.io/internal/api/openapi"
)

// auditPage is how many entries one question asks for.
const auditPage = 1000

func (c *cli) auditCommand() *cobra.Command {
	var actor, action, since, until string
	var limit int
	cmd := &cobra.Command{
		Use: "audit", Short: "Show who changed what, and who signed in, newest first (admin)", Args: cobra.NoArgs,
		Long: "Shows the entries of the audit that match all that is given: --tenant whose things were\n" +
			"changed, --actor who did it, --action how the action begins, --since and --until when.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return usage("--limit must be 0 (all) or more; got %d", limit)
			}
			params := openapi.SearchAuditParams{Tenant: given(c.opts.tenant), Actor: given(actor), Action: given(action)}
			var err error
			if params.Since, err = moment("--since", since, time.Now()); err == nil {
				params.Until, err = moment("--until", until, time.Now())
			}
			if err != nil {
				return err
			}
			conn, err := c.connect(true)
			if err != nil {
				return err
			}
			list, err := searchAudit(cmd.Context(), conn, params, limit)
			if err != nil {
				return err
			}
			return c.printAudit(list)
		},
	}
	f := cmd.Flags()
	f.StringVar(&actor, "actor", "", `a key's id, a role, or "nobody" for sign-ins that failed`)
	f.StringVar(&action, "action", "", `how the action begins, for example "POST /session"`)
	f.StringVar(&since, "since", "", "a time such as 2026-01-31T08:00:00Z, or how long ago: 24h")
	f.StringVar(&until, "until", "", "before this time, or so long ago")
	f.IntVar(&limit, "limit", 100, "most entries; 0: all")
	return cmd
}

// searchAudit goes on until there are enough or no more; a page may be empty.
func searchAudit(ctx context.Context, conn *connection, params openapi.SearchAuditParams, limit int) (openapi.AuditList, error) {
	all := openapi.AuditList{Items: []openapi.AuditEntry{}}
	for {
		page := auditPage
		if limit > 0 {
			page = min(page, limit-len(all.Items))
		}
		params.Limit = &page
		doc, err := document200(conn.api.SearchAuditWithResponse(ctx, &params))
		if err != nil {
			return all, err
		}
		all.Items, all.Next = append(all.Items, doc.Items...), doc.Next
		if doc.Next == "" || limit > 0 && len(all.Items) >= limit {
			return all, nil
		}
		params.After = &doc.Next
	}
}

func (c *cli) printAudit(list openapi.AuditList) error {
	t := table{head: []string{"AGE", "ACTOR", "ACTION", "RESULT", "TENANT", "SOURCE", "WHY"}}
	names := make([]string, 0, len(list.Items))
	for _, e := range list.Items {
		names = append(names, e.Id)
		t.add(ageOf(e.At), e.Actor, e.Action, e.Result, text(e.Tenant), text(e.Source), text(e.Why))
	}
	return c.print(list, names, t)
}

// given is nil for what was left out.
func given(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// moment reads a time, or how long before now it was.
func moment(flag, s string, now time.Time) (*string, error) {
	if s == "" {
		return nil, nil
	}
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		ago, notAgo := time.ParseDuration(s)
		if notAgo != nil || ago < 0 {
			return nil, usage("%s must be a time such as 2026-01-31T08:00:00Z, or how long ago, such as 24h; got %q", flag, s)
		}
		at = now.Add(-ago)
	}
	return given(at.UTC().Format(time.RFC3339Nano)), nil
}
