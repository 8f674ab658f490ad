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
		{`{"model":"m","messages": [{"role":"user","content":"hi"}] ,"max_tokens":10}`, `[{"role":"user","content":"hi"}]`, 8},
		{`{"model":"m","prompt":"` + long + `"}`, `"` + long + `"`, 1000},
		{`{"model":"m","input":["a","b"],"max_output_tokens":7}`, `["a","b"]`, 2},
		{`{"model":"m","prompt":"","input":"longer"}`, `"longer"`, 2},
		{`{"model":"m"}`, ``, 0},
	} {
		r, err := ScanRequest([]byte(c.body))
		if err != nil {
			t.Errorf("%.60s: %v", c.body, err)
		}
		if got := string(r.Prompt([]byte(c.body))); got != c.prompt || r.PromptTokens() != c.tokens {
			t.Errorf("%.60s: prompt %.60q, %d tokens, want %d", c.body, got, r.PromptTokens(), c.tokens)
		}
	}
}

// TestFigures: what a request says of its answers is read as lenient engines
// read it.
func TestFigures(t *testing.T) {
	t.Parallel()
	type figures struct{ tokens, completion, output, n, best, prompts int64 }
	for body, want := range map[string]figures{
		`"max_tokens":5,"max_completion_tokens":50,"max_output_tokens":500,"n":3,"best_of":4`:       {5, 50, 500, 3, 4, 0},
		`"max_tokens":null,"max_completion_tokens":-3,"max_output_tokens":"many","n":[2]`:           {},
		`"max_tokens":1e3,"max_completion_tokens":50.0,"n":"7"`:                                     {tokens: 1000, completion: 50, n: 7},
		`"max_tokens":1e99,"max_output_tokens":1e999,"n":9223372036854775808`:                       {tokens: maxFigure, output: maxFigure, n: maxFigure},
		`"max_tokens":" 9\n","max_completion_tokens":"\u0039","max_output_tokens":"9_0","n":"\t2 "`: {tokens: 9, completion: 9, output: 90, n: 2},
		`"m\u0061x_tokens":9`:             {tokens: 9},
		`"prompt":"a"`:                    {prompts: 1},
		`"prompt":[1,2,3]`:                {prompts: 1},
		`"prompt":[]`:                     {prompts: 1},
		`"prompt":[ "a" ,"b","c"]`:        {prompts: 3},
		`"prompt":[[1,2],[3]]`:            {prompts: 2},
		`"x":{"max_tokens":1,"N":2}`:      {},
		`"prompt":[{"prompt":"a","n":1}]`: {prompts: 1},
	} {
		r, err := ScanRequest([]byte(`{"model":"m",` + body + `}`))
		got := figures{r.MaxTokens, r.MaxCompletionTokens, r.MaxOutputTokens, r.Choices, r.BestOf, r.Prompts}
		if err != nil || got != want {
			t.Errorf("%s: %+v %v, want %+v", body, got, err, want)
		}
	}
}
