package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/gateway"
	"modeldock.io/internal/traffic/limit"
)

// accounted is a gateway whose reservations and settlements are written down.
type accounted struct {
	*bench
	accounts *audited
}

func setupAccounts(t *testing.T) accounted {
	t.Helper()
	a := &audited{Memory: limit.NewMemory(time.Now), taken: map[string]int64{}, settled: map[string][]int64{}}
	b := setup(t, func(c *gateway.Config) { c.Limiter = a })
	b.publish(func(s *traffic.Snapshot) {
		s.Limits = map[string]traffic.Limits{"team-a": {Together: traffic.Rates{TokensPerDay: 1 << 60}}}
	})
	return accounted{b, a}
}

// cost sends a request and returns what was reserved for it and what it was
// charged.
func (a accounted) cost(path, body string) (reserved, charged int64) {
	a.t.Helper()
	r := a.call(http.MethodPost, path, keyA, body)
	if r.status != http.StatusOK {
		a.t.Fatalf("%s %s: %d %s", path, body, r.status, r.body)
	}
	id := header(r, "X-Request-Id")
	settled := func() []int64 {
		a.accounts.mu.Lock()
		defer a.accounts.mu.Unlock()
		reserved = a.accounts.taken[id]
		return a.accounts.settled[id]
	}
	eventually(a.t, "the settlement of "+id, func() bool { return len(settled()) == 1 })
	return reserved, settled()[0]
}

func bodyOf(r *http.Request) string {
	text, _ := io.ReadAll(r.Body)
	return string(text)
}

const (
	madeTokens = 400
	madeText   = "word" // of one token
	promptUsed = 7      // as the engines of these tests report
)

// making answers each operation with madeTokens, at once or in events of
// several tokens, and tells its usage if told is set.
func making(told bool) http.HandlerFunc {
	const each = 10 // tokens in an event
	text := func(tokens int) string { return strings.Repeat(madeText, tokens) }
	chatUsage := fmt.Sprintf(`"usage":{"prompt_tokens":%d,"completion_tokens":%d}`, promptUsed, madeTokens)
	typedUsage := fmt.Sprintf(`"usage":{"input_tokens":%d,"output_tokens":%d}`, promptUsed, madeTokens)
	if !told {
		chatUsage, typedUsage = `"usage":null`, `"usage":null`
	}
	var chat, typed []string
	for range madeTokens / each {
		chat = append(chat, chunkEvent(text(each)))
		typed = append(typed, strings.Replace(responseDelta, `"delta":"hi"`, `"delta":"`+text(each)+`"`, 1))
	}
	chat = append(chat, stopEvent, `data: {"choices":[],`+chatUsage+"}\n\n", doneEvent)
	typed = append(typed, typedEvent("response.completed", `"response":{"id":"r","status":"completed",`+typedUsage+`}`))
	return func(w http.ResponseWriter, r *http.Request) {
		stream := strings.Contains(bodyOf(r), `"stream":true`)
		switch {
		case r.URL.Path == "/v1/responses" && stream:
			events(typed...)(w, r)
		case stream:
			events(chat...)(w, r)
		case r.URL.Path == "/v1/responses":
			whole(`{"id":"r","object":"response","status":"completed","output":[{"content":[{"text":"`+text(madeTokens)+`"}]}],`+typedUsage+`}`)(w, r)
		default:
			whole(`{"id":"c","choices":[{"index":0,"message":{"content":"`+text(madeTokens)+`"},"text":"","finish_reason":"stop"}],`+chatUsage+`}`)(w, r)
		}
	}
}

// begun are requests of each operation, without their ends.
var begun = map[string]string{
	"/v1/chat/completions": `{"model":"m1","messages":[{"role":"user","content":"hi"}]`,
	"/v1/completions":      `{"model":"m1","prompt":"hi"`,
	"/v1/responses":        `{"model":"m1","input":"hi"`,
}

// TestCallersDoNotLowerTheCount: an engine that heeds nothing of what its
// caller says makes 400 tokens, and they count, told or not.
func TestCallersDoNotLowerTheCount(t *testing.T) {
	t.Parallel()
	words := []string{
		``, `"max_tokens":1`, `"max_completion_tokens":1`, `"max_output_tokens":1`, `"max_tokens":0`, `"max_tokens":"1"`,
		`"max_tokens":1,"max_completion_tokens":1,"max_output_tokens":1`, `"max\u005ftokens":1`, `"n":1,"best_of":1`,
		`"maxTokens":1`, `"max_new_tokens":1`, `"stream_options":{"include_usage":false}`, `"stream_options":null`,
	}
	for _, told := range []bool{true, false} {
		a := setupAccounts(t)
		a.engine("team-a", "m1", "v1", making(told))
		for path, ask := range begun {
			for _, word := range words {
				for _, stream := range []string{"", `,"stream":true`} {
					body := ask + stream
					if word != "" {
						body += "," + word
					}
					body += "}"
					_, charged := a.cost(path, body)
					switch {
					case told && charged != promptUsed+madeTokens:
						t.Errorf("%s %s was charged %d, it used %d", path, body, charged, promptUsed+madeTokens)
					case !told && (charged < madeTokens || charged > 2*madeTokens):
						t.Errorf("%s %s was charged %d, nobody said that it used %d", path, body, charged, madeTokens)
					}
				}
			}
		}
	}
}

// TestMembersThatHideOthersAreRefused: what an engine could take for a member
// that the gateway reads reaches none.
func TestMembersThatHideOthersAreRefused(t *testing.T) {
	t.Parallel()
	a := setupAccounts(t)
	a.engine("team-a", "m1", "v1", func(_ http.ResponseWriter, r *http.Request) { t.Errorf("an engine was asked %s", bodyOf(r)) })
	for path, ask := range begun {
		for word, code := range map[string]string{
			`"max_tokens":1,"MAX_TOKENS":3000`: "invalid_member", `"max_toKens":3000`: "invalid_member", `"Max_Output_Tokens":3000`: "invalid_member",
			`"N":50`: "invalid_member", `"Best_of":50`: "invalid_member", `"\u0053tream":true`: "invalid_member", `"ſtream":true`: "invalid_member",
			`"STREAM_OPTIONS":{"include_usage":false}`: "invalid_member", `"stream_options":{"INCLUDE_USAGE":false}`: "invalid_member",
			`"max_tokens":1,"max_tokens":3000`: "duplicate_member", `"n":1,"\u006e":9`: "duplicate_member",
		} {
			r := a.call(http.MethodPost, path, keyA, ask+","+word+"}")
			if e := errorOf(t, r); r.status != http.StatusBadRequest || e.Code != code {
				t.Errorf("%s %s: %d %+v, want %s", path, word, r.status, e, code)
			}
		}
	}
}

// TestReservations: what is set aside for an answer follows the members that
// the operation defines, and no others.
func TestReservations(t *testing.T) {
	t.Parallel()
	const unsaid = 256
	a := setupAccounts(t)
	a.engine("team-a", "m1", "v1", making(true))
	for _, c := range []struct {
		path, words string
		answer      int64
	}{
		{"/v1/chat/completions", ``, unsaid},
		{"/v1/chat/completions", `,"max_tokens":20`, 20},
		{"/v1/chat/completions", `,"max_tokens":20,"max_completion_tokens":30`, 30},
		{"/v1/chat/completions", `,"max_output_tokens":1`, unsaid},
		{"/v1/chat/completions", `,"max_tokens":20,"n":4,"best_of":9`, 80},
		{"/v1/completions", `,"max_tokens":20,"max_completion_tokens":30,"max_output_tokens":40`, 20},
		{"/v1/completions", `,"max_tokens":20,"n":2,"best_of":5`, 100},
		{"/v1/completions", `,"max_completion_tokens":1`, unsaid},
		{"/v1/responses", `,"max_tokens":1,"max_completion_tokens":1`, unsaid},
		{"/v1/responses", `,"max_output_tokens":30,"n":7`, 30},
	} {
		body := begun[c.path] + c.words + "}"
		if reserved, _ := a.cost(c.path, body); reserved != int64(len(body)/4)+c.answer {
			t.Errorf("%s %s reserved %d, want %d for the answer", c.path, body, reserved, c.answer)
		}
	}
	for prompt, prompts := range map[string]int64{`["a","b","c"]`: 3, `[[1,2],[3]]`: 2, `[1,2,3]`: 1, `[]`: 1} {
		body := `{"model":"m1","prompt":` + prompt + `,"max_tokens":20,"n":2}`
		if reserved, _ := a.cost("/v1/completions", body); reserved != int64(len(body)/4)+prompts*40 {
			t.Errorf("%s reserved %d, want %d answers", body, reserved, 2*prompts)
		}
	}
}

// TestClaimsEndAtWhatWasRelayed: an engine's claim counts up to the bytes of
// content, or, as far as it is more, up to what the caller let it use unseen.
func TestClaimsEndAtWhatWasRelayed(t *testing.T) {
	t.Parallel()
	const unsaid, unseen = 256, 32 << 10
	claim := strings.NewReplacer(`"prompt_tokens":7`, `"prompt_tokens":1000000000000`, `"completion_tokens":3`, `"completion_tokens":1000000000000`)
	short := []string{roleEvent, chunkEvent("a"), stopEvent, claim.Replace(usageEvent), doneEvent}
	var long []string
	for range 100 {
		long = append(long, chunkEvent(strings.Repeat("a", 10)))
	}
	long = append(long, short...)
	framing := int64(len(roleEvent + stopEvent + doneEvent)) // says nothing, but is there
	cut := func(w http.ResponseWriter, r *http.Request) {
		events(long[:20]...)(w, r)
		panic(http.ErrAbortHandler)
	}
	// hidden answers with so many events that have only this in their choice.
	hidden := func(n int, member string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			event := `data: {"object":"chat.completion.chunk","choices":[{"index":0,` + member + "}]}\n\n"
			events(strings.Repeat(event, n))(w, r)
			panic(http.ErrAbortHandler)
		}
	}
	early := func(w http.ResponseWriter, r *http.Request) { // as with continuous_usage_stats
		events(strings.Replace(usageEvent, `"completion_tokens":3`, `"completion_tokens":1`, 1))(w, r)
		cut(w, r)
	}
	for name, c := range map[string]struct {
		engine      http.HandlerFunc
		words       string
		least, most int64
	}{
		"a short answer":          {events(short...), ``, unsaid, framing},
		"many events":             {events(long...), ``, 1001, 1001 + framing},
		"unseen, as allowed":      {events(short...), `,"max_tokens":5000`, 5000, 5000},
		"unseen, of tries":        {events(short...), `,"max_tokens":5000,"n":3`, 15000, 15000},
		"without bound":           {events(short...), `,"max_tokens":9007199254740991`, unseen, unseen},
		"bounded below":           {events(short...), `,"max_tokens":1`, unsaid, framing},
		"cut before it was told":  {cut, ``, 50, 50},
		"cut, with a small bound": {cut, `,"max_tokens":1`, 50, 50},
		"cut, tokens by number":   {hidden(20, `"token_ids":[17]`), `,"max_tokens":1`, 20, 20},
		"cut, odds alone":         {hidden(20, `"logprobs":{"content":[{"token":"a","logprob":-0.1}]}`), `,"max_tokens":1`, 20, 20},
		"cut, in no known member": {hidden(20, `"thoughts":"`+strings.Repeat("a", 100)+`"`), `,"max_tokens":1`, unsaid, unsaid},
		"cut, nearly empty":       {hidden(1, `"thoughts":""`), `,"max_tokens":1`, 16, 24},
		"told early, then cut":    {early, ``, 50, 50},
		"at once":                 {whole(claim.Replace(wholeChat)), ``, unsaid, int64(len(claim.Replace(wholeChat)))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := setupAccounts(t)
			a.engine("team-a", "m1", "v1", c.engine)
			body := strings.TrimSuffix(helloStream, "}") + c.words + "}"
			if name == "at once" {
				body = helloChat
			}
			_, charged := a.cost("/v1/chat/completions", body)
			prompt := int64(len(body))
			switch {
			case strings.HasPrefix(name, "cut"):
				prompt /= 4 // nobody told
			case strings.HasPrefix(name, "told"):
				prompt = promptUsed
			}
			if charged < prompt+c.least || charged > prompt+c.most {
				t.Errorf("charged %d, of which %d for the prompt; the answer should be %d to %d", charged, prompt, c.least, c.most)
			}
		})
	}
}
