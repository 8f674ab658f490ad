package api

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"modeldock.io/internal/elastic/scaler"
)

// leftScaling cannot be read by a caller who has left.
type leftScaling struct{ *fakeScaling }

func (leftScaling) WarmPools(ctx context.Context) ([]scaler.WarmReport, error) {
	return nil, scaler.ErrUnread
}

// A caller who leaves at once is no outage, and has no line in the log; an
// outage has one, also for a caller who stays.
func TestCallersWhoLeaveAreNotTold(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	b := setup(t, func(c *Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		c.Scaling = leftScaling{c.Scaling.(*fakeScaling)}
	})
	calls := [][3]string{
		{"Bearer mdk_nobody_" + strings.Repeat("a", 52), "GET", "/requests"}, {"Bearer " + b.a, "GET", "/requests"}, {"Bearer " + b.a, "GET", "/models"},
		{"Bearer " + b.admin, "GET", "/ledger/verify"}, {"Bearer " + b.admin, "GET", "/warmpools"}, {"Bearer " + b.a, "DELETE", "/requests/one"},
	}
	ask := func(ctx context.Context, c [3]string) int {
		r := httptest.NewRequest(c[1], c[2], nil).WithContext(ctx)
		r.Header.Set("Authorization", c[0])
		w := httptest.NewRecorder()
		b.server.Handler().ServeHTTP(w, r)
		_, _ = io.Copy(io.Discard, w.Body)
		return w.Code
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	for _, c := range calls {
		if status := ask(left, c); status != 503 {
			t.Errorf("%s %s by one who left answers %d", c[1], c[2], status)
		}
	}
	if log.Len() > 0 {
		t.Errorf("the log has\n%s", &log)
	}
	b.ok(b.ledger.Close())
	if status := ask(t.Context(), calls[0]); status != 503 || !strings.Contains(log.String(), "ledger unavailable") {
		t.Errorf("%d, and the log has\n%s", status, &log)
	}
}
