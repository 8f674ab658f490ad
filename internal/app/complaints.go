package app

import (
	"log"
	"log/slog"
	"strings"
	"time"

	"modeldock.io/internal/outage"
)

// complaints send an HTTP server's own words to the structured log. Most are
// about what somebody sent, with or without a key, so that of each kind the
// first is told, and how many more there were with the next one. A panic is
// our fault and always told.
type complaints struct {
	log   *slog.Logger
	often *outage.Repeats
}

// complaintsTo is for http.Server's ErrorLog.
func complaintsTo(l *slog.Logger, clock func() time.Time) *log.Logger {
	return log.New(&complaints{log: l, often: outage.NewRepeats(l, clock)}, "", 0)
}

func (c *complaints) Write(b []byte) (int, error) {
	text := strings.TrimSpace(string(b))
	if strings.HasPrefix(text, "http: panic serving") {
		c.log.Error("http server", "message", text)
		return len(b), nil
	}
	c.often.Warn(kindOf(text), "http server", "message", text)
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
