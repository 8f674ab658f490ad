package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"modeldock.io/internal/api/openapi"
)

func (c *cli) quotaCommand() *cobra.Command {
	cmd := group("quota", "Slots that a tenant may hold")
	cmd.AddCommand(
		&cobra.Command{Use: "get [TENANT]", Short: "Show cap and used", Args: cobra.MaximumNArgs(1), RunE: c.quotaGet},
		&cobra.Command{Use: "set TENANT CAP", Short: "Set a tenant's cap (admin)", Args: cobra.ExactArgs(2), RunE: c.quotaSet},
	)
	return cmd
}

// account is a tenant's or a pool's slots, as a row of a table.
type account struct {
	name      string
	cap, used int64
}

func tenantAccount(t openapi.Tenant) account { return account{t.Tenant, t.Cap, t.Used} }
func poolAccount(p openapi.Pool) account     { return account{p.Pool, p.Cap, p.Used} }

// accountTable lists rows under a head that begins with kind.
func accountTable[T any](kind string, rows []T, of func(T) account) ([]string, table) {
	t := table{head: []string{kind, "CAP", "USED", "FREE"}}
	var names []string
	for _, row := range rows {
		a := of(row)
		names = append(names, a.name)
		t.add(a.name, fmt.Sprint(a.cap), fmt.Sprint(a.used), fmt.Sprint(max(0, a.cap-a.used)))
	}
	return names, t
}

// tenants are the one that args name, or all.
func (c *cli) tenants(ctx context.Context, args []string) (*openapi.TenantList, error) {
	conn, err := c.connect(len(args) == 1)
	if err != nil {
		return nil, err
	}
	list, err := document200(conn.api.ListTenantsWithResponse(ctx))
	if err != nil || len(args) == 0 {
		return list, err
	}
	list.Items = keep(list.Items, func(t openapi.Tenant) bool { return t.Tenant == args[0] })
	if len(list.Items) == 0 {
		return nil, &exitError{exitNotFound, fmt.Errorf("no such tenant: %s", args[0])}
	}
	return list, nil
}

func (c *cli) quotaGet(cmd *cobra.Command, args []string) error {
	list, err := c.tenants(cmd.Context(), args)
	if err != nil {
		return err
	}
	names, t := accountTable("TENANT", list.Items, tenantAccount)
	return c.print(*list, names, t)
}

func keep[T any](in []T, want func(T) bool) []T {
	out := []T{}
	for _, v := range in {
		if want(v) {
			out = append(out, v)
		}
	}
	return out
}

func readCap(s string) (openapi.Cap, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return openapi.Cap{}, usage("CAP must be an integer; got %q", s)
	}
	return openapi.Cap{Cap: n}, nil
}

func (c *cli) quotaSet(cmd *cobra.Command, args []string) error {
	limit, err := readCap(args[1])
	if err != nil {
		return err
	}
	conn, err := c.connect(true)
	if err != nil {
		return err
	}
	doc, err := document200(conn.api.PutQuotaWithResponse(cmd.Context(), args[0], limit))
	if err != nil {
		return err
	}
	names, t := accountTable("TENANT", []openapi.Tenant{*doc}, tenantAccount)
	return c.print(*doc, names, t)
}

func (c *cli) poolCommand() *cobra.Command {
	cmd := group("pool", "Slots of a pool, shared by tenants")
	cmd.AddCommand(
		&cobra.Command{Use: "get [POOL]", Short: "Show cap and used", Args: cobra.MaximumNArgs(1), RunE: c.poolGet},
		&cobra.Command{Use: "set POOL CAP", Short: "Set a pool's cap (admin)", Args: cobra.ExactArgs(2), RunE: c.poolSet},
	)
	return cmd
}

func (c *cli) poolGet(cmd *cobra.Command, args []string) error {
	conn, err := c.connect(false)
	if err != nil {
		return err
	}
	list, err := document200(conn.api.ListPoolsWithResponse(cmd.Context()))
	if err != nil {
		return err
	}
	if len(args) == 1 {
		list.Items = keep(list.Items, func(p openapi.Pool) bool { return p.Pool == args[0] })
		if len(list.Items) == 0 {
			return &exitError{exitNotFound, fmt.Errorf("no such pool: %s", args[0])}
		}
	}
	names, t := accountTable("POOL", list.Items, poolAccount)
	return c.print(*list, names, t)
}

func (c *cli) poolSet(cmd *cobra.Command, args []string) error {
	limit, err := readCap(args[1])
	if err != nil {
		return err
	}
	conn, err := c.connect(true)
	if err != nil {
		return err
	}
	doc, err := document200(conn.api.PutPoolWithResponse(cmd.Context(), args[0], limit))
	if err != nil {
		return err
	}
	names, t := accountTable("POOL", []openapi.Pool{*doc}, poolAccount)
	return c.print(*doc, names, t)
}

func (c *cli) stepCommand() *cobra.Command {
	var count int
	var crash string
	cmd := &cobra.Command{
		Use: "step admit|deliver|reconcile|release", Short: "Run one round of a loop of `up --manual` (admin)", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			conn, err := c.connect(true)
			if err != nil {
				return err
			}
			body := openapi.Step{What: openapi.StepWhat(args[0]), Count: &count}
			if crash != "" {
				before := openapi.StepCrashBefore(crash)
				body.CrashBefore = &before
			}
			doc, err := document200(conn.api.StepWithResponse(cmd.Context(), body))
			if err != nil {
				return err
			}
			t := table{head: []string{"REQUEST", "DID", "DETAIL"}}
			var names []string
			for _, d := range doc.Done {
				names = append(names, d.Id)
				t.add(d.Tenant+"/"+d.Id, d.Did, text(d.Detail))
			}
			return c.print(*doc, names, t)
		},
	}
	cmd.Flags().IntVar(&count, "count", 1, "rows of this round at most")
	cmd.Flags().StringVar(&crash, "crash-before", "", "create, ack or credit: kill the server at that point, to watch the recovery")
	return cmd
}
