package gateway

import (
	"math/rand/v2"
	"time"
)

// newRequestID returns "req_" and 26 characters that sort by time: 48 bits of
// milliseconds and 80 random bits in Crockford's base 32, which is the layout
// of a ULID (github.com/ulid/spec). The generator is seeded by the system and
// cannot be predicted from outside.
func newRequestID(now time.Time) string {
	const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	const prefix = "req_"
	var id [len(prefix) + 26]byte
	copy(id[:], prefix)
	fill := func(from, to int, bits uint64) {
		for i := to - 1; i >= from; i-- {
			id[i] = alphabet[bits&31]
			bits >>= 5
		}
	}
	text := len(prefix)
	fill(text, text+10, uint64(now.UnixMilli()))
	fill(text+10, text+18, rand.Uint64()) //nolint:gosec // an id, not a secret
	fill(text+18, text+26, rand.Uint64()) //nolint:gosec // an id, not a secret
	return string(id[:])
}
