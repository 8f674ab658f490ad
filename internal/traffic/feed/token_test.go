package feed

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestPass(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	pass := Pass(token, "abc", now)
	if id, err := CheckPass(token, pass, now.Add(PassAge-time.Second)); err != nil || id != "abc" {
		t.Errorf("a good pass: %q, %v", id, err)
	}
	if _, err := CheckPass(token, "mdk_abc_secret", now); !errors.Is(err, ErrNoPass) {
		t.Errorf("a key: %v", err)
	}
	other := strings.Repeat("x", MinToken)
	for name, c := range map[string]struct {
		token, pass string
		at          time.Time
		says        string
	}{
		"too late":           {token, pass, now.Add(PassAge), "ended"},
		"another's":          {other, pass, now, "not signed"},
		"another key":        {token, strings.Replace(pass, "abc", "abd", 1), now, "not signed"},
		"a longer life":      {token, strings.Replace(pass, "1800000060", "1900000060", 1), now, "not signed"},
		"a short signature":  {token, pass[:len(pass)-1], now, "not signed"},
		"nothing signed":     {token, "mdt_", now, "malformed"},
		"signed but no time": {token, "mdt_abc." + signature(token, "abc"), now, "malformed"},
	} {
		if _, err := CheckPass(c.token, c.pass, c.at); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
