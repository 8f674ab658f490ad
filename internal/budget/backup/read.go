package backup

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"modeldock.io/internal/budget"
)

// MalformedError says where a document is not one of this format.
type MalformedError struct {
	Where   string // "the head", "reservations[3]", …
	Message string
}

func (e *MalformedError) Error() string {
	return fmt.Sprintf("the copy is refused, nothing was changed: %s: %s", e.Where, e.Message)
}

func malformed(where, format string, args ...any) error {
	return &MalformedError{where, fmt.Sprintf(format, args...)}
}

// Reader reads one document, as often as it is asked to.
type Reader struct{ in io.ReadSeeker }

// NewReader reads from the beginning of in.
func NewReader(in io.ReadSeeker) *Reader { return &Reader{in} }

// Head reads the beginning of the document.
func (r *Reader) Head() (budget.CopyHead, error) {
	_, h, err := r.begin()
	return h, err
}

// Rows are all rows in their order; an error is the last of them. A grant that
// ended is left out where it was given again: a ledger whose program did not
// know of grants that ended may hold both.
func (r *Reader) Rows() iter.Seq2[budget.Row, error] {
	return func(yield func(budget.Row, error) bool) {
		dec, _, err := r.begin()
		hand := withoutEndedBesideLive(yield)
		for i := 0; err == nil && i < len(sections()); i++ {
			var more bool
			if more, err = readSection(dec, sections()[i], hand); !more {
				return
			}
		}
		if err == nil {
			err = readEnd(dec)
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// withoutEndedBesideLive hands on all rows but grants that ended and stand
// behind the same one that is live.
func withoutEndedBesideLive(yield func(budget.Row, error) bool) func(budget.Row, error) bool {
	live := map[[3]string]bool{}
	return func(r budget.Row, err error) bool {
		switch g := r.(type) {
		case budget.Grant:
			live[[3]string{g.Owner, g.Model, g.Grantee}] = true
		case budget.EndedGrant:
			if live[[3]string{g.Owner, g.Model, g.Grantee}] {
				return true
			}
		}
		return yield(r, err)
	}
}

// begin reads the head and leaves the decoder behind it.
func (r *Reader) begin() (*json.Decoder, budget.CopyHead, error) {
	var h budget.CopyHead
	if _, err := r.in.Seek(0, io.SeekStart); err != nil {
		return nil, h, fmt.Errorf("read the copy: %w", err)
	}
	dec := json.NewDecoder(bufio.NewReaderSize(r.in, 64<<10))
	dec.UseNumber()
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, h, malformed("the head", "the document must be a JSON object that begins with \"format\":%q", Format)
	}
	var format, at string
	for _, part := range []struct {
		key string
		out any
	}{{"format", &format}, {"incarnation", &h.Incarnation}, {"journalSeq", &h.JournalSeq}, {"exportedAt", &at}} {
		if err := readKey(dec, part.key); err != nil {
			return nil, h, err
		}
		if err := dec.Decode(part.out); err != nil {
			return nil, h, cut("the head", err, part.key)
		}
		if part.key == "format" && format != Format {
			return nil, h, malformed("the head", "its format is %q and this version of ModelDock reads %q: import it with the version that wrote it, then export it again with this one", format, Format)
		}
	}
	t, err := time.Parse(time.RFC3339Nano, at)
	switch {
	case err != nil:
		return nil, h, malformed("the head", "exportedAt %q is no time", at)
	case h.JournalSeq < 0 || h.JournalSeq > budget.MaxNumber:
		return nil, h, malformed("the head", "journalSeq is %d; it goes from 0 to %d", h.JournalSeq, int64(budget.MaxNumber))
	}
	h.At = t
	return dec, h, nil
}

// readKey reads the key that must come next.
func readKey(dec *json.Decoder, want string) error {
	if !dec.More() {
		return cut("the document", io.ErrUnexpectedEOF, want)
	}
	tok, err := dec.Token()
	if err != nil {
		return cut("the document", err, want)
	}
	if tok != want {
		return malformed("the document", "%q stands where %q must: the keys have a fixed order, none is repeated and none is added", tok, want)
	}
	return nil
}

// readSection hands on the rows of one section; more is false when the taker
// wants none any more.
func readSection(dec *json.Decoder, section string, yield func(budget.Row, error) bool) (more bool, err error) {
	if err := readKey(dec, section); err != nil {
		return true, err
	}
	if tok, err := dec.Token(); err != nil || tok != json.Delim('[') {
		return true, malformed(section, "it must be an array of rows")
	}
	decode := decoder(section)
	for i := 0; dec.More(); i++ {
		where := fmt.Sprintf("%s[%d]", section, i)
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return true, cut(where, err, "a row")
		}
		row, err := decode(raw)
		if err != nil {
			return true, malformed(where, "%s", err.Error())
		}
		if !yield(row, nil) {
			return false, nil
		}
	}
	if _, err := dec.Token(); err != nil {
		return true, cut(section, err, "its end")
	}
	return true, nil
}

func readEnd(dec *json.Decoder) error {
	if dec.More() {
		return malformed("the document", "something stands behind the last section: keys have a fixed order, none is repeated and none is added")
	}
	if _, err := dec.Token(); err != nil {
		return cut("the document", err, "its end")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return malformed("the document", "it goes on after its end")
	}
	return nil
}

// cut tells a document that ends too early from one that is no JSON.
func cut(where string, err error, want string) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return malformed(where, "it is cut off where %s must come: the export was interrupted, export again", want)
	}
	return malformed(where, "%s cannot be read: %v", want, err)
}
