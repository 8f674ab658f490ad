// Package cache keeps whole answers of the traffic account for the very same
// request of the very same tenant. What may be kept and under which key is
// decided here; Memory keeps answers in this process, rediscache in a Redis
// that several gateways share.
package cache

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"
)

// MaxAnswer is the largest answer that is kept, in bytes.
const MaxAnswer = 1 << 20

// Store keeps answers. It is safe for concurrent use, never waits long, and
// may forget at any time.
type Store interface {
	Get(ctx context.Context, k Key) (Answer, bool)
	Put(ctx context.Context, k Key, a Answer, ttl time.Duration)
}

// Answer is a complete answer of an engine, as the caller got it.
type Answer struct {
	ContentType string
	Body        []byte
	At          time.Time // when it was complete
}

// Key names a request.
type Key [sha256.Size]byte

// Question is everything that two requests must have in common to have one
// answer.
type Question struct {
	Tenant    string // who asks; empty for an admin
	Owner     string
	Model     string
	Version   string
	ObjectUID string // of what serves it: another release of the model answers anew
	Path      string
	Stream    bool
	Usage     bool   // the stream tells the usage
	Body      []byte // in canonical form
}

// Key hashes the question. Every part is preceded by its length, so that no
// two questions have one spelling.
func (q Question) Key() Key {
	h := sha256.New()
	add := func(part []byte) {
		_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(part)))) // a hash never fails
		_, _ = h.Write(part)
	}
	for _, part := range []string{q.Tenant, q.Owner, q.Model, q.Version, q.ObjectUID, q.Path, fmt.Sprint(q.Stream, q.Usage)} {
		add([]byte(part))
	}
	add(q.Body)
	return Key(h.Sum(nil))
}

// envelope stands before the body in the encoded form.
type envelope struct {
	ContentType string
	At          time.Time
	Length      int
	Sum         []byte // of the body
}

// Encode spells an answer for a store outside of this process.
func (a Answer) Encode() ([]byte, error) {
	sum := sha256.Sum256(a.Body)
	head, err := json.Marshal(envelope{a.ContentType, a.At, len(a.Body), sum[:]})
	if err != nil {
		return nil, fmt.Errorf("encode an answer for the cache: %w", err)
	}
	return append(append(head, '\n'), a.Body...), nil
}

// Decode reads what Encode wrote. One that is not whole is none.
func Decode(raw []byte) (Answer, error) {
	var head envelope
	for i, c := range raw {
		if c != '\n' {
			continue
		}
		if err := json.Unmarshal(raw[:i], &head); err != nil {
			return Answer{}, fmt.Errorf("read an answer from the cache: %w", err)
		}
		body := raw[i+1:]
		if sum := sha256.Sum256(body); len(body) != head.Length || string(sum[:]) != string(head.Sum) {
			return Answer{}, fmt.Errorf("read an answer from the cache: its %d bytes are not the %d that were kept", len(body), head.Length)
		}
		return Answer{head.ContentType, body, head.At}, nil
	}
	return Answer{}, fmt.Errorf("read an answer from the cache: its %d bytes have no head", len(raw))
}
