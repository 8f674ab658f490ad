// Package backup is account 1 as one JSON document: what `modeldock ledger
// export` writes and `ledger import` reads, from and into any of the ledgers.
// It streams in both directions, and judges a document before a ledger sees it.
package backup

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"modeldock.io/internal/api/wiretime"
	"modeldock.io/internal/budget"
)

// Format names this version of the document. The order of its keys is part of
// it: head, then the sections, so that a reader needs to keep none in memory.
const Format = "modeldock-ledger/1"

// section names, in the order in which they stand.
const (
	tenants      = "tenants"
	pools        = "pools"
	reservations = "reservations"
	journal      = "journal"
	outbox       = "outbox"
	bindings     = "bindings"
	keys         = "keys"
	grants       = "grants"
	audit        = "audit"
	firstChunks  = "firstChunks"
)

func sections() []string {
	return []string{tenants, pools, reservations, journal, outbox, bindings, keys, grants, audit, firstChunks}
}

// head is the beginning of the document.
type head struct {
	Format      string `json:"format"`
	Incarnation string `json:"incarnation"`
	JournalSeq  int64  `json:"journalSeq"`
	ExportedAt  string `json:"exportedAt"`
}

// Writer writes one document. Its methods fit budget.Copying's Export; after
// the last row comes Close, without which the document is visibly cut off.
type Writer struct {
	out  *bufio.Writer
	next int // index of the next section to open
	rows int // of the section that is open
}

// NewWriter returns a writer that has written nothing yet.
func NewWriter(out io.Writer) *Writer { return &Writer{out: bufio.NewWriterSize(out, 64<<10)} }

// Head begins the document.
func (w *Writer) Head(h budget.CopyHead) error {
	raw, err := json.Marshal(head{Format, h.Incarnation, h.JournalSeq, h.At.UTC().Format(wiretime.Layout)})
	if err != nil {
		return fmt.Errorf("encode the head of the copy: %w", err)
	}
	_, err = w.out.Write(raw[:len(raw)-1]) // the object goes on
	return written(err)
}

// Row writes one row into its section.
func (w *Writer) Row(r budget.Row) error {
	section, wire, err := wireOf(r)
	if err != nil {
		return err
	}
	if err := w.advance(section); err != nil {
		return err
	}
	raw, err := json.Marshal(wire)
	if err != nil {
		return fmt.Errorf("encode a row of %s: %w", section, err)
	}
	if w.rows > 0 {
		_ = w.out.WriteByte(',') // a failure stays with the writer and is told below
	}
	w.rows++
	_ = w.out.WriteByte('\n')
	_, err = w.out.Write(raw)
	return written(err)
}

// advance opens the section, and the ones before it that have no row.
func (w *Writer) advance(section string) error {
	order := sections()
	if w.next > 0 && order[w.next-1] == section {
		return nil
	}
	for w.next < len(order) {
		if w.next > 0 {
			_ = w.out.WriteByte(']')
		}
		_, _ = w.out.WriteString(",\n\"" + order[w.next] + "\":[")
		w.next, w.rows = w.next+1, 0
		if order[w.next-1] == section {
			return nil
		}
	}
	if section == "" {
		return nil
	}
	return fmt.Errorf("a row of %s came after a later section of the copy", section)
}

// Close ends the document.
func (w *Writer) Close() error {
	if err := w.advance(""); err != nil {
		return err
	}
	_, _ = w.out.WriteString("]}\n")
	return written(w.out.Flush())
}

func written(err error) error {
	if err != nil {
		return fmt.Errorf("write the copy: %w", err)
	}
	return nil
}
