package app

import (
	"log"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// complainEvery is how often the log has one kind of complaint that strangers
// can cause.
const complainEvery = time.Minute

// complaints send an HTTP server's own words to the structured log. Most are
// about what somebody sent, with or without a key, so that of each kind the
// first is told, and how many more there were with the next one. A panic is
// our fault and always told.
type complaints struct {
	log   *slog.Logger
	clock func() time.Time

	mu    sync.Mutex
	kinds map[string]*complaintKind
}

type complaintKind struct {
	told  time.Time
	since int // untold ones since then
}

// complaintsTo is for http.Server's ErrorLog.
func complaintsTo(l *slog.Logger, clock func() time.Time) *log.Logger {
	return log.New(&complaints{log: l, clock: clock, kinds: map[string]*complaintKind{}}, "", 0)
}

func (c *complaints) Write(b []byte) (int, error) {
	text := strings.TrimSpace(string(b))
	if strings.HasPrefix(text, "http: panic serving") {
		c.log.Error("http server", "message", text)
		return len(b), nil
	}
	if more, tell := c.count(kindOf(text)); tell {
		args := []any{"message", text}
		if more > 0 {
			args = append(args, "more", more) // like it, since the last that was told
		}
		c.log.Warn("http server", args...)
	}
	return len(b), nil
}

// kindOf is one of a fixed few: a text may hold what a stranger sent.
func kindOf(text string) string {
	for _, kind := range []string{"TLS handshake with", "http2: ", "http: Accept error", "http: "} {
		if strings.HasPrefix(text, kind) {
			return kind
		}
	}
	return ""
}

func (c *complaints) count(kind string) (more int, tell bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, known := c.kinds[kind]
	if !known {
		k = &complaintKind{}
		c.kinds[kind] = k
	}
	now := c.clock()
	if known && now.Sub(k.told) < complainEvery {
		k.since++
		return 0, false
	}
	more, k.since, k.told = k.since, 0, now
	return more, true
}
