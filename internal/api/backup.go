package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/gin-gonic/gin"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/backup"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/strictjson"
)

// MaxImport bounds the one request body that is larger than MaxBody: a ledger.
const MaxImport = 1 << 30

const importPath = "/ledger/import"

// Restorer brings a ledger back.
type Restorer interface {
	// Import takes in a copy of a ledger; the key named keep stays usable.
	Import(ctx context.Context, doc io.ReadSeeker, keep string) (backup.Contents, error)
	// AcceptOlder takes a ledger that is older than what was delivered for the
	// truth, and returns when everything that it does not know has ended.
	AcceptOlder(ctx context.Context, who, why string) (Accepted, error)
	// Standstill is why nothing is admitted, delivered or credited, or empty.
	// It names nobody's requests: everybody may read it.
	Standstill() string
	// Differences names what an older ledger and the world differ in, for an admin.
	Differences() string
}

// Accepted is what was done to make the world agree with an older ledger.
type Accepted struct {
	JournalSeq  int64 // the number above which the journal goes on
	Differences []delivery.Difference
}

// Conflict is a refusal because of the state that things are in.
type Conflict string

func (c Conflict) Error() string { return string(c) }

// ExportLedger streams the whole ledger as one document.
func (s handlers) ExportLedger(c *gin.Context) {
	if !s.adminOnly(c) {
		return
	}
	select {
	case s.exporting <- struct{}{}:
		defer func() { <-s.exporting }()
	default:
		s.fail(c, Conflict("another export is under way: wait for its end; each one holds a snapshot of the database"))
		return
	}
	doc := backup.NewWriter(c.Writer)
	err := s.Ledger.Export(c.Request.Context(), func(h budget.CopyHead) error {
		c.Header("Content-Type", "application/json; charset=utf-8")
		c.Header("Content-Disposition", fmt.Sprintf("attachment; filename=%q", "modeldock-ledger-"+h.At.UTC().Format("20060102T150405Z")+".json"))
		return doc.Head(h)
	}, doc.Row)
	if err == nil {
		err = doc.Close()
	}
	s.audit(c, "", err)
	switch {
	case err == nil:
	case c.Writer.Written():
		if c.Request.Context().Err() == nil { // nobody has left
			s.log.Error("export broken off", "error", err)
		}
		panic(http.ErrAbortHandler) // what is out is cut, so that nobody takes it for a whole one
	default:
		c.Writer.Header().Del("Content-Disposition")
		s.fail(c, err)
	}
}

// ImportLedger takes in a copy of a ledger, or accepts this one as it is.
func (s handlers) ImportLedger(c *gin.Context) {
	if !s.adminOnly(c) {
		return
	}
	doc, size, err := s.spool(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	defer func() { _ = doc.Close() }()
	if size <= MaxBody && firstKey(doc) != "format" {
		s.acceptOlder(c, doc)
		return
	}
	caller := who(c).KeyID
	contents, err := s.Restorer.Import(c.Request.Context(), doc, caller)
	s.audit(c, "", err, fmt.Sprintf("%d bytes, audit rows from before: %d", size, contents.Audit))
	if err != nil {
		s.fail(c, err)
		return
	}
	incarnation, seq, err := s.Ledger.Identity(c.Request.Context())
	if err != nil {
		s.fail(c, err)
		return
	}
	answer := openapi.LedgerImported{
		Incarnation: &incarnation, JournalSeq: seq, KeptKey: &caller, Tenants: &contents.Tenants, Pools: &contents.Pools,
		Reservations: &contents.Reservations, JournalEntries: &contents.Entries, Keys: &contents.Keys,
		Older: some(s.older()), Dropped: []openapi.LedgerDifference{}, Restored: []openapi.LedgerDifference{},
	}
	c.JSON(http.StatusOK, answer)
}

// standstill is for everybody.
func (s *Server) standstill() string {
	if s.Restorer == nil {
		return ""
	}
	return s.Restorer.Standstill()
}

// stillStanding refuses what would be journaled by a ledger that may be the
// wrong one: its numbers would grow past those by which it is recognised.
func (s *Server) stillStanding() error {
	if why := s.standstill(); why != "" {
		return &problem{http.StatusConflict, "ledger_stands_still", "nothing is changed: " + why, ""}
	}
	return nil
}

// older is why the ledger stands still, with names, or empty.
func (s *Server) older() string {
	why := s.standstill()
	if why == "" {
		return ""
	}
	if details := s.Restorer.Differences(); details != "" {
		why += ". They are: " + details
	}
	return why
}

func (s handlers) acceptOlder(c *gin.Context, doc io.ReadSeeker) {
	raw, err := readFromStart(doc)
	if err != nil {
		s.fail(c, err)
		return
	}
	var in openapi.AcceptOlder
	if err := strictjson.Decode(raw, &in); err != nil {
		s.fail(c, err)
		return
	}
	if !in.AcceptOlder {
		s.fail(c, invalid("acceptOlder", "acceptOlder must be true; leave it out and send a document of GET /ledger/export to import that"))
		return
	}
	p, why := who(c), value(in.Why, "")
	// The world is half changed if the caller leaves: this goes on without him.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), acceptLimit)
	defer cancel()
	done, err := s.Restorer.AcceptOlder(ctx, string(p.Role)+" "+p.KeyID, why)
	s.audit(c, why, err, fmt.Sprintf("acceptOlder, %d differences", len(done.Differences)))
	if err != nil {
		s.fail(c, err)
		return
	}
	answer := openapi.LedgerImported{JournalSeq: done.JournalSeq, Dropped: []openapi.LedgerDifference{}, Restored: []openapi.LedgerDifference{}}
	for _, d := range done.Differences {
		wire := openapi.LedgerDifference{Tenant: d.Ref.Tenant, Id: d.Ref.ID, Object: d.Object.Name, Uid: d.Object.UID, Note: d.Note}
		if d.Drops() {
			answer.Dropped = append(answer.Dropped, wire)
		} else {
			answer.Restored = append(answer.Restored, wire)
		}
	}
	c.JSON(http.StatusOK, answer)
}

// acceptLimit bounds how long the processes of deleted objects may take to end.
const acceptLimit = 5 * time.Minute

// spool keeps the body in a file without a name: a document is read more than
// once, and no slow sender holds up the ledger.
func (s handlers) spool(c *gin.Context) (doc *os.File, size int64, err error) {
	if doc, err = os.CreateTemp(s.SpoolDir, ".import-*"); err != nil { // 0600
		return nil, 0, fmt.Errorf("keep the document: %w", err)
	}
	_ = os.Remove(doc.Name()) // it lives as long as it is open
	size, err = io.Copy(doc, c.Request.Body)
	if err == nil {
		return doc, size, nil
	}
	_ = doc.Close()
	var tooLarge *http.MaxBytesError
	if !errors.As(err, &tooLarge) {
		err = invalid("", "the document could not be read to its end, after %d bytes: send it again", size)
	}
	return nil, 0, err
}

// firstKey is the first key of a JSON object, or empty.
func firstKey(doc io.ReadSeeker) string {
	if _, err := doc.Seek(0, io.SeekStart); err != nil {
		return ""
	}
	dec := json.NewDecoder(doc)
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return ""
	}
	tok, _ := dec.Token()
	key, _ := tok.(string)
	return key
}

func readFromStart(doc io.ReadSeeker) ([]byte, error) {
	if _, err := doc.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read the body: %w", err)
	}
	raw, err := io.ReadAll(doc)
	if err != nil {
		return nil, fmt.Errorf("read the body: %w", err)
	}
	return raw, nil
}
