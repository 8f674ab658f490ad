package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"modeldock.io/internal/api/openapi"
)

func (c *cli) ledgerExportCommand() *cobra.Command {
	var file string
	var overwrite bool
	cmd := &cobra.Command{
		Use: "export", Short: "Write the whole ledger as one document, to stdout or --file (admin)", Args: cobra.NoArgs,
		Long: "Writes the whole ledger as one JSON document: a backup, and the way to another database.\n" +
			"It holds every request with its environment values, and of the keys the hashes of their\nsecrets: keep it as private as the ledger.",
		RunE: func(cmd *cobra.Command, _ []string) error { return c.ledgerExport(cmd.Context(), file, overwrite) },
	}
	cmd.Flags().StringVar(&file, "file", "", "write there (readable by you alone) instead of stdout")
	cmd.Flags().BoolVar(&overwrite, "overwrite", false, "replace --file if it is there")
	return cmd
}

func (c *cli) ledgerExport(ctx context.Context, file string, overwrite bool) error {
	if file != "" && !overwrite {
		// Asked again when the file is put in place; this saves the export.
		if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
			return usage("%s is there already: choose another name, or add --overwrite", file)
		}
	}
	conn, err := c.connect(true)
	if err != nil {
		return err
	}
	resp, err := conn.stream(ctx, http.MethodGet, "/ledger/export", nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if file == "" {
		_, err := io.Copy(screen(c.out), resp.Body)
		return failed(brokenOff(err))
	}
	return failed(putFile(file, overwrite, resp.Body))
}

func brokenOff(err error) error {
	if err != nil {
		return fmt.Errorf("the export broke off (%w): what was written is not whole; export again", err)
	}
	return nil
}

// putFile writes a private file that appears under its name only when it is whole.
func putFile(path string, overwrite bool, from io.Reader) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".modeldock-export-*") // 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // no longer there after a rename
	_, err = io.Copy(tmp, from)
	if err = errors.Join(brokenOff(err), tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	place := os.Link // refuses a file that came in the meantime
	if overwrite {
		place = os.Rename
	}
	if err := place(tmp.Name(), path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func (c *cli) ledgerImportCommand() *cobra.Command {
	var accept bool
	var why string
	cmd := &cobra.Command{
		Use: "import [FILE]", Short: "Read a document of `ledger export` into a new ledger, or accept an older ledger (admin)", Args: cobra.MaximumNArgs(1),
		Long: "With FILE (- is stdin): takes the document into a ledger that holds no request yet. Its pools,\n" +
			"tenants and keys are replaced; the key of this call stays.\n\n" +
			"With --accept-older and no FILE: a ledger that stands still because it is older than what was\n" +
			"delivered is taken as the truth. What it does not know is deleted, with its processes.",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case accept && len(args) == 0:
				return c.ledgerAccept(cmd.Context(), why)
			case accept || len(args) == 0:
				return usage("give either a FILE (- is stdin) or --accept-older")
			}
			return c.ledgerImport(cmd.Context(), args[0])
		},
	}
	cmd.Flags().BoolVar(&accept, "accept-older", false, "take the running ledger, which is older than what was delivered, as the truth")
	cmd.Flags().StringVar(&why, "why", "", "with --accept-older: a reason for the audit")
	return cmd
}

func (c *cli) ledgerImport(ctx context.Context, file string) error {
	from := c.in
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return failed(fmt.Errorf("read the document: %w", err))
		}
		defer func() { _ = f.Close() }()
		from = f
	}
	conn, err := c.connect(true)
	if err != nil {
		return err
	}
	done, err := conn.sendLedger(ctx, from)
	if err != nil {
		return err
	}
	t := table{head: []string{"TENANTS", "POOLS", "REQUESTS", "JOURNAL", "KEYS"}}
	t.add(figure(done.Tenants), figure(done.Pools), figure(done.Reservations), figure(done.JournalEntries), figure(done.Keys))
	if err := c.print(*done, []string{text(done.Incarnation)}, t); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(c.err, "the key of this call (%s) stays usable beside the document's; all others of the new ledger are gone\n", text(done.KeptKey))
	if done.Older != nil {
		return &exitError{exitBroken, errors.New(plain(*done.Older))}
	}
	return nil
}

func figure(n *int) string {
	if n == nil {
		return "0"
	}
	return fmt.Sprint(*n)
}

func (c *cli) ledgerAccept(ctx context.Context, why string) error {
	conn, err := c.connect(true)
	if err != nil {
		return err
	}
	body := openapi.AcceptOlder{AcceptOlder: true}
	if why != "" {
		body.Why = &why
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return failed(fmt.Errorf("encode the decision: %w", err))
	}
	done, err := conn.sendLedger(ctx, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	t := table{head: []string{"REQUEST", "OBJECT", "UID", "DID", "WHY"}}
	var names []string
	for _, part := range []struct {
		did  string
		list []openapi.LedgerDifference
	}{{"deleted", done.Dropped}, {"delivered again", done.Restored}} {
		for _, d := range part.list {
			names = append(names, d.Id)
			t.add(d.Tenant+"/"+d.Id, d.Object, d.Uid, part.did, d.Note)
		}
	}
	return c.print(*done, names, t)
}

// sendLedger posts to the import; there is no limit on how long it may take.
func (conn *connection) sendLedger(ctx context.Context, from io.Reader) (*openapi.LedgerImported, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, conn.url+"/ledger/import", from)
	if err != nil {
		return nil, failed(err)
	}
	_ = conn.sign(ctx, r)
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, failed(fmt.Errorf("ask %s: %w", conn.url, err))
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return nil, failed(fmt.Errorf("read the answer of %s: %w", conn.url, err))
	}
	if err := check(resp.StatusCode, resp.Status, resp.Header.Get("Content-Type"), data); err != nil {
		return nil, err
	}
	var done openapi.LedgerImported
	if err := json.Unmarshal(data, &done); err != nil {
		return nil, failed(fmt.Errorf("read the answer of %s: %w", conn.url, err))
	}
	return &done, nil
}
