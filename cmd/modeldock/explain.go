package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"modeldock.io/internal/api/openapi"
)

func (c *cli) explainCommand() *cobra.Command {
	var scaling bool
	cmd := &cobra.Command{
		Use:   "explain ID|MODEL",
		Short: "Was it paid once, did it start, did the first chunk arrive",
		Long: "Walks the whole chain of one request and names the first broken link.\n" +
			"Exit code 0 if all three answers are yes, 3 if something is pending, 4 if a link is broken or blocked.\n" +
			"With --scaling: why the model, named by id or name, has the number of replicas that it has.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			conn, err := c.connect(false)
			if err != nil {
				return err
			}
			if scaling {
				report, err := conn.scaling(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return c.explainScaling(*report)
			}
			doc, err := document200(conn.api.GetEvidenceWithResponse(cmd.Context(), args[0], &openapi.GetEvidenceParams{Tenant: conn.whose()}))
			if err != nil {
				return err
			}
			return c.explain(*doc)
		},
	}
	cmd.Flags().BoolVar(&scaling, "scaling", false, "explain the number of replicas instead")
	return cmd
}

func (c *cli) explain(e openapi.Evidence) error {
	switch c.opts.output {
	case "table", "":
		c.explainTree(e)
	default:
		if err := c.print(e, []string{e.Id}, table{}); err != nil {
			return err
		}
	}
	a := e.Answers
	switch {
	case e.BrokenAt != nil:
		return &exitError{code: exitBroken}
	case slices.ContainsFunc(e.Steps, func(s openapi.EvidenceStep) bool { return s.Status == openapi.EvidenceStepStatusUnknown }):
		return &exitError{code: exitPending} // what cannot be read is never ok
	case is(a.BudgetSpentOnce) && is(a.ModelStarted) && is(a.FirstChunkDelivered):
		return nil
	default:
		return &exitError{code: exitPending}
	}
}

func is(b *bool) bool { return b != nil && *b }

var accounts = []struct {
	account openapi.EvidenceStepAccount
	asks    string
	answer  func(openapi.Answers) *bool
}{
	{"budget", "was the budget spent once", func(a openapi.Answers) *bool { return a.BudgetSpentOnce }},
	{"delivery", "did the model really start", func(a openapi.Answers) *bool { return a.ModelStarted }},
	{"traffic", "did the caller get the first chunk", func(a openapi.Answers) *bool { return a.FirstChunkDelivered }},
	{"release", "did the slots come back once", nil},
}

func (c *cli) explainTree(e openapi.Evidence) {
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(c.out, format, args...) }
	p("%s/%s\n", e.Tenant, e.Id)
	for _, acc := range accounts {
		var steps []openapi.EvidenceStep
		for _, s := range e.Steps {
			if s.Account == acc.account {
				steps = append(steps, s)
			}
		}
		if len(steps) == 0 {
			continue
		}
		verdict := c.verdict(allHold(steps))
		if acc.answer != nil {
			verdict = c.verdict(acc.answer(e.Answers))
		}
		p("%s — %s? %s\n", acc.account, acc.asks, verdict)
		for _, s := range steps {
			p("  %s\n", c.stepLine(s))
		}
	}
	if e.BrokenAt != nil {
		p("\n%s\n", c.paint(colourBroken, fmt.Sprintf("broken at %s: %s", *e.BrokenAt, text(e.Reason))))
	}
	if e.Message != nil {
		p("%s\n", plain(*e.Message))
	}
	if action := nextActions[text(e.NextAction)]; action != "" {
		p("next: %s\n", strings.NewReplacer("ID", e.Id, "MODEL", modelOf(e)).Replace(action))
	}
}

// modelOf is the name that callers use, without the version.
func modelOf(e openapi.Evidence) string {
	for _, s := range e.Steps {
		if served, ok := s.Facts["model"].(string); ok {
			name, _, _ := strings.Cut(served, "@")
			return name
		}
	}
	return e.Id
}

// allHold answers for steps that have no question of their own: nil while one
// is pending.
func allHold(steps []openapi.EvidenceStep) *bool {
	yes := true
	for _, s := range steps {
		switch s.Status {
		case openapi.EvidenceStepStatusOk:
		case openapi.EvidenceStepStatusBroken:
			no := false
			return &no
		default:
			return nil
		}
	}
	return &yes
}

func (c *cli) verdict(answer *bool) string {
	switch {
	case answer == nil:
		return c.paint(colourPending, "not yet")
	case *answer:
		return c.paint(colourOK, "yes")
	default:
		return c.paint(colourBroken, "no")
	}
}

func (c *cli) stepLine(s openapi.EvidenceStep) string {
	mark := map[openapi.EvidenceStepStatus]string{
		"ok": c.paint(colourOK, "✓"), "pending": c.paint(colourPending, "…"), "broken": c.paint(colourBroken, "✗"), "unknown": c.paint(colourPending, "?"),
	}[s.Status]
	line := fmt.Sprintf("%s %-11s", mark, s.Step)
	if s.At != nil {
		line += time.Time(*s.At).Local().Format("15:04:05.000") + "  "
	} else {
		line += strings.Repeat(" ", 14)
	}
	if s.Reason != nil && *s.Reason != "NotYet" {
		line += *s.Reason + "  "
	}
	return strings.TrimRight(line+c.paint(colourFaint, facts(s)), " ")
}

// facts prints a step's figures in a stable order.
func facts(s openapi.EvidenceStep) string {
	if s.Expected != nil && s.Found != nil {
		return plain("expected " + *s.Expected + "; found " + *s.Found)
	}
	keys := make([]string, 0, len(s.Facts))
	for k := range s.Facts {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	parts := make([]string, 0, len(keys))
	for _, k := range keys {
		if v := fmt.Sprint(s.Facts[k]); v != "" && k != "specHash" {
			parts = append(parts, k+"="+v)
		}
	}
	return plain(strings.Join(parts, " "))
}

// nextActions puts the document's codes into words.
var nextActions = map[string]string{
	"ReleaseOwnRequestOrRaiseQuota": "release one of your own requests, or ask an admin: modeldock quota set TENANT CAP",
	"WaitForPoolOrRaiseCap":         "wait for slots of the pool, or ask an admin: modeldock pool set POOL CAP",
	"RaiseQuotaOrLowerCost":         "it can never fit this quota: ask an admin to raise it, or submit with a lower cost under a new id",
	"RaisePoolCapOrLowerCost":       "it can never fit this pool: ask an admin to raise its cap, or submit with a lower cost under a new id",
	"SubmitAgainUnderNewID":         "submit again under a new id",
	"RemoveForeignObject":           "remove or rename the foreign object; delivery then goes on by itself",
	"FreeCardMemoryOrAskForLess":    "release a model that holds card memory, or submit with less gpuMemoryMiB: see modeldock nodes",
	"FreeOrAddANode":                "see what keeps the Pods off the nodes (kubectl describe pod), and free a node or add one",
	"AllowThePods":                  "let the namespace's quota, limits or policies allow the Pods; they are then made by themselves",
	"CheckTheImage":                 "check the image's name and whether its registry lets the nodes in",
	"ReadEngineLogs":                "read the engine's output: modeldock logs ID",
	"CorrectTheStart":               "the engine's program was never started: correct what the message names; if that is part of the model, submit it again under a new id",
	"CallTheModel":                  "call it: modeldock chat MODEL \"hello\"",
	"CreateKeyOrGrant":              "create a key (modeldock key create) or a grant (modeldock grant add)",
	"RunLedgerVerify":               "check the ledger: modeldock ledger verify",
	"CheckTheEndpoints":             "if this lasts, see whether the cluster lists the replica (kubectl get endpointslices) and whether the gateway reads that (its log)",
	"CheckTheNode":                  "look at the node and its replicas: modeldock nodes",
	"Wait":                          "wait; this goes on by itself",
}
