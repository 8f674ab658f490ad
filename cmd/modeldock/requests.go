package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"modeldock.io/internal/api/openapi"
)

func (c *cli) getCommand() *cobra.Command {
	return &cobra.Command{
		Use: "get ID", Short: "Show one request", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			conn, err := c.connect(false)
			if err != nil {
				return err
			}
			r, err := c.fetch(cmd.Context(), conn, args[0])
			if err != nil {
				return err
			}
			return c.printRequest(r)
		},
	}
}

func (c *cli) listCommand() *cobra.Command {
	var state, reason, model string
	cmd := &cobra.Command{
		Use: "list", Short: "List requests in arrival order", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conn, err := c.connect(false)
			if err != nil {
				return err
			}
			params := openapi.ListRequestsParams{Reason: opt(reason), Model: opt(model), Tenant: conn.whose()}
			if state != "" {
				s := openapi.State(state)
				params.State = &s
			}
			return c.list(cmd, conn, params)
		},
	}
	cmd.Flags().StringVar(&state, "state", "", "waiting, reserved, released or expired")
	cmd.Flags().StringVar(&reason, "reason", "", "for example QuotaBlocked")
	cmd.Flags().StringVar(&model, "model", "", "model name")
	return cmd
}

// allRequests follows a list to its end.
func allRequests(ctx context.Context, conn *connection, params openapi.ListRequestsParams) (openapi.RequestList, error) {
	all := openapi.RequestList{Items: []openapi.Request{}}
	for {
		doc, err := document200(conn.api.ListRequestsWithResponse(ctx, &params))
		if err != nil {
			return all, err
		}
		all.Items = append(all.Items, doc.Items...)
		if doc.Next == "" {
			return all, nil
		}
		params.After = &doc.Next
	}
}

func (c *cli) list(cmd *cobra.Command, conn *connection, params openapi.ListRequestsParams) error {
	all, err := allRequests(cmd.Context(), conn, params)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(all.Items))
	for _, r := range all.Items {
		names = append(names, r.Id)
	}
	return c.print(all, names, requestTable(all.Items))
}

func (c *cli) releaseCommand() *cobra.Command {
	var wait, force bool
	var why string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "release ID", Short: "Stop a model and give its slots back", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if why != "" && !force {
				return usage("--why is the reason of a forced release: add --force, or leave it out")
			}
			conn, err := c.connect(force)
			if err != nil {
				return err
			}
			if force && conn.tenant == "" {
				conn.tenant = conn.home // the admin's key belongs to no tenant
			}
			params := openapi.ReleaseRequestParams{Tenant: conn.whose()}
			if force {
				params.Force = &force
			}
			doc, err := document202(conn.api.ReleaseRequestWithResponse(cmd.Context(), args[0], &params, openapi.ReleaseReason{Why: opt(why)}))
			if err != nil {
				return err
			}
			if wait {
				return c.waitReleased(cmd.Context(), conn, args[0], timeout)
			}
			return c.printRequest(*doc)
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the slots are credited")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "how long --wait waits")
	cmd.Flags().BoolVar(&force, "force", false, "credit the slots although the model may still run (admin)")
	cmd.Flags().StringVar(&why, "why", "", "the reason, kept in the audit log; needed with --force")
	return cmd
}

func (c *cli) watchCommand() *cobra.Command {
	return &cobra.Command{
		Use: "watch [ID]", Short: "Print requests as they change, until interrupted", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			conn, err := c.connect(false)
			if err != nil {
				return err
			}
			only := ""
			if len(args) == 1 {
				only = args[0]
			}
			return c.watch(cmd, conn, only)
		},
	}
}

// watch follows the event stream; every hint is a reason to read again, and
// only a line that differs from the last one is printed. A stream that ends (the
// server drops who cannot keep up) is opened again.
func (c *cli) watch(cmd *cobra.Command, conn *connection, only string) error {
	w := watcher{cli: c, conn: conn, only: only, last: map[string]string{}}
	for {
		err := w.follow(cmd.Context())
		switch {
		case interrupted(cmd.Context()):
			return nil
		case err != nil:
			return err
		}
		c.warn("the event stream ended; it is opened again")
		select {
		case <-cmd.Context().Done():
			return nil
		case <-time.After(pollEvery):
		}
	}
}

// interrupted reports whether the caller has seen enough.
func interrupted(ctx context.Context) bool { return ctx.Err() != nil }

type watcher struct {
	*cli
	conn *connection
	only string            // id; empty: all
	last map[string]string // line by tenant/id
}

// follow shows changes until the stream ends; an error means that it could
// not be opened, or that the requests cannot be read.
func (w *watcher) follow(ctx context.Context) error {
	resp, err := w.conn.stream(ctx, http.MethodGet, "/events?topics=request,model", nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "data:") {
			if err := w.show(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *watcher) show(ctx context.Context) error {
	list, err := allRequests(ctx, w.conn, openapi.ListRequestsParams{Tenant: w.conn.whose()})
	if err != nil {
		return err
	}
	for _, r := range list.Items {
		key := r.Tenant + "/" + r.Id
		line := r.Tenant + "/" + progress(r) + fmt.Sprintf(" (%d ready)", r.ReadyReplicas)
		if (w.only == "" || w.only == r.Id) && w.last[key] != line {
			w.last[key] = line
			if err := w.tell(r, line); err != nil {
				return err
			}
		}
	}
	return nil
}

// tell prints one change as -o asks: a line for people, or the record, with
// JSON as one line each and YAML as one document each.
func (w *watcher) tell(r openapi.Request, line string) error {
	switch w.opts.output {
	case "json":
		return failed(json.NewEncoder(w.out).Encode(r))
	case "yaml":
		_, _ = fmt.Fprintln(w.out, "---")
		return w.print(r, nil, table{})
	case "name":
		return w.print(r, []string{r.Id}, table{})
	default:
		_, err := fmt.Fprintln(w.out, time.Now().Format("15:04:05")+"  "+line)
		return failed(err)
	}
}

func firstErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *cli) logsCommand() *cobra.Command {
	var follow bool
	var replica string
	var tail int
	cmd := &cobra.Command{
		Use: "logs ID", Short: "Show the engine's output", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			conn, err := c.connect(false)
			if err != nil {
				return err
			}
			q := url.Values{}
			if conn.tenant != "" {
				q.Set("tenant", conn.tenant)
			}
			if replica != "" {
				q.Set("replica", replica)
			}
			if follow {
				q.Set("follow", "true")
			}
			if tail >= 0 {
				q.Set("tail", strconv.Itoa(tail))
			}
			resp, err := conn.stream(cmd.Context(), http.MethodGet, "/requests/"+url.PathEscape(args[0])+"/logs?"+q.Encode(), nil)
			if err != nil {
				return err
			}
			defer func() { _ = resp.Body.Close() }()
			_, err = io.Copy(screen(c.out), resp.Body)
			if interrupted(cmd.Context()) {
				return nil
			}
			return failed(err)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on as it appears")
	cmd.Flags().StringVar(&replica, "replica", "", "one replica's output")
	cmd.Flags().IntVar(&tail, "tail", -1, "only the last lines")
	return cmd
}
