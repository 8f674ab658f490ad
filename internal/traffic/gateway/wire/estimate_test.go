package wire

import (
	"strings"
	"testing"
)

func TestEstimate(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 800)
	for _, c := range []struct {
		body   string
		prompt string
		tokens int64
	}{
		{`{"model":"m","messages": [{"role":"user","content":"hi"}] ,"max_tokens":10}`, `[{"role":"user","content":"hi"}]`, 8 + 10},
		{`{"model":"m","prompt":"` + long + `"}`, `"` + long + `"`, 1000 + unsaidTokens},
		{`{"model":"m","input":["a","b"],"max_output_tokens":7}`, `["a","b"]`, 2 + 7},
		{`{"model":"m","max_tokens":5,"max_completion_tokens":50}`, ``, 50},
		{`{"model":"m","max_tokens":null,"max_completion_tokens":-3}`, ``, unsaidTokens},
		{`{"model":"m","max_tokens":"many"}`, ``, unsaidTokens},
		{`{"model":"m","prompt":"","prompt":"longer"}`, `"longer"`, 2 + unsaidTokens},
		{`{"model":"m"}`, ``, unsaidTokens},
	} {
		r, err := ScanRequest([]byte(c.body))
		if err != nil {
			t.Errorf("%.60s: %v", c.body, err)
		}
		if got := string(r.Prompt([]byte(c.body))); got != c.prompt || r.Tokens() != c.tokens {
			t.Errorf("%.60s: prompt %.60q, %d tokens, want %d", c.body, got, r.Tokens(), c.tokens)
		}
	}
}
