package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"modeldock.io/internal/api/openapi"
)

func (c *cli) keyCommand() *cobra.Command {
	cmd := group("key", "API keys (admin)")
	cmd.AddCommand(c.keyCreate(), c.keyList(), c.keyRevoke(), c.keyBootstrap())
	return cmd
}

func (c *cli) keyCreate() *cobra.Command {
	var role string
	var expires time.Duration
	cmd := &cobra.Command{
		Use: "create [TENANT]", Short: "Mint a key; its secret is shown this once", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			conn, err := c.connect(true)
			if err != nil {
				return err
			}
			body := openapi.NewKey{Role: openapi.Role(role)}
			if len(args) == 1 {
				body.Tenant = &args[0]
			}
			if expires > 0 {
				seconds := int64(expires.Seconds())
				body.ExpiresInSeconds = &seconds
			}
			doc, err := document201(conn.api.CreateKeyWithResponse(cmd.Context(), body))
			if err != nil {
				return err
			}
			k := *doc
			t := table{head: []string{"ID", "TENANT", "ROLE", "KEY"}}
			t.add(k.Id, text(k.Tenant), string(k.Role), k.Key)
			return c.print(k, []string{k.Key}, t)
		},
	}
	cmd.Flags().StringVar(&role, "role", "tenant", "tenant, viewer or admin")
	cmd.Flags().DurationVar(&expires, "expires-in", 0, "for example 720h (default: never)")
	return cmd
}

func (c *cli) keyList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List keys without their secrets", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conn, err := c.connect(true)
			if err != nil {
				return err
			}
			doc, err := document200(conn.api.ListKeysWithResponse(cmd.Context()))
			if err != nil {
				return err
			}
			t := table{head: []string{"ID", "TENANT", "ROLE", "AGE", "STATUS"}}
			var names []string
			for _, k := range doc.Items {
				names = append(names, k.Id)
				status := "live"
				if k.RevokedAt != nil {
					status = "revoked"
				} else if k.ExpiresAt != nil && k.ExpiresAt.Std().Before(time.Now()) {
					status = "expired"
				}
				t.add(k.Id, text(k.Tenant), string(k.Role), ageOf(k.CreatedAt), status)
			}
			return c.print(*doc, names, t)
		},
	}
}

func (c *cli) keyRevoke() *cobra.Command {
	return &cobra.Command{
		Use: "revoke KEY-ID", Short: "End a key", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			conn, err := c.connect(true)
			if err != nil {
				return err
			}
			if err := answered(conn.api.RevokeKeyWithResponse(cmd.Context(), args[0])); err != nil {
				return err
			}
			_, _ = fmt.Fprintf(c.out, "key %s is revoked\n", args[0])
			return nil
		},
	}
}

func (c *cli) grantCommand() *cobra.Command {
	cmd := group("grant", "Who may call whose model")
	cmd.AddCommand(
		&cobra.Command{Use: "add OWNER MODEL GRANTEE", Short: "Let GRANTEE call OWNER's MODEL", Args: cobra.ExactArgs(3), RunE: c.grantAdd},
		&cobra.Command{Use: "remove OWNER MODEL GRANTEE", Short: "Take a grant back; GRANTEE may give up its own, for good", Args: cobra.ExactArgs(3), RunE: c.grantRemove},
		&cobra.Command{Use: "list", Short: "List the grants that concern you", Args: cobra.NoArgs, RunE: c.grantList},
	)
	return cmd
}

func grantTable(gs []openapi.Grant) ([]string, table) {
	t := table{head: []string{"OWNER", "MODEL", "GRANTEE", "AGE"}}
	var names []string
	for _, g := range gs {
		names = append(names, g.Owner+"/"+g.Model+"/"+g.Grantee)
		t.add(g.Owner, g.Model, g.Grantee, ageOf(g.At))
	}
	return names, t
}

func (c *cli) grantAdd(cmd *cobra.Command, args []string) error {
	conn, err := c.connect(c.opts.tenant == "")
	if err != nil {
		return err
	}
	doc, err := document200(conn.api.PutGrantWithResponse(cmd.Context(), args[0], args[1], args[2]))
	if err != nil {
		return err
	}
	names, t := grantTable([]openapi.Grant{*doc})
	return c.print(*doc, names, t)
}

func (c *cli) grantRemove(cmd *cobra.Command, args []string) error {
	conn, err := c.connect(c.opts.tenant == "")
	if err != nil {
		return err
	}
	if err := answered(conn.api.DeleteGrantWithResponse(cmd.Context(), args[0], args[1], args[2])); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(c.out, "%s may no longer call %s/%s\n", args[2], args[0], args[1])
	return nil
}

func (c *cli) grantList(cmd *cobra.Command, _ []string) error {
	conn, err := c.connect(c.opts.tenant == "")
	if err != nil {
		return err
	}
	doc, err := document200(conn.api.ListGrantsWithResponse(cmd.Context()))
	if err != nil {
		return err
	}
	names, t := grantTable(doc.Items)
	return c.print(*doc, names, t)
}
