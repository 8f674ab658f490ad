package gateway_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// fate is how a hostile stream ends.
type fate int

const (
	fateWhole  fate = iota
	fateClean       // cut, as if that were its end
	fateBroken      // cut in the middle of a chunk
	fateReset       // cut by RST
	fateError       // the engine says that it failed
	fateStall       // the engine says nothing more; the caller leaves
	fateLeave       // the caller leaves while the engine writes
	fates
)

// streamPlan is one engine's answer, made of a seed alone: engine and caller
// both make it and know what has to come.
type streamPlan struct {
	sent     string // by the engine
	want     string // by the caller, if all goes well
	pieces   []int  // where the engine flushes, ascending
	fate     fate
	finished bool // all choices are finished in what is sent
	gzip     bool
	untyped  bool // no content type
	closing  bool // the end of the connection ends the body
	usage    bool // the caller asked for it
}

// planner writes events in the spelling of one stream.
type planner struct {
	r    *rand.Rand
	eol  string
	sent strings.Builder
	want strings.Builder
}

// planOf makes stream i of a run.
func planOf(seed, i uint64) streamPlan {
	p := &planner{r: rand.New(rand.NewPCG(seed, i))}
	p.eol = []string{"\n", "\n", "\r\n", "\r"}[p.r.IntN(4)]
	plan := streamPlan{fate: fateWhole, gzip: p.r.IntN(8) == 0, untyped: p.r.IntN(50) == 0, closing: p.r.IntN(4) == 0, usage: p.r.IntN(3) == 0}
	if p.r.IntN(2) == 0 {
		plan.fate = fate(p.r.IntN(int(fates)))
	}
	if p.r.IntN(10) == 0 {
		p.both("\xef\xbb\xbf")
	}
	p.event(`{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`)
	for range 1 + p.r.IntN(10) {
		p.noise()
		p.event(`{"id":"c1","choices":[{"index":0,"delta":{"content":"` + p.text() + `"},"finish_reason":null}]}`)
	}
	cuttable := p.sent.Len()
	if plan.finished = p.r.IntN(4) == 0; plan.finished || plan.fate == fateWhole {
		p.event(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)
	}
	switch plan.fate {
	case fateWhole:
		p.ending(plan.usage)
	case fateError:
		p.sent.WriteString([]string{
			`data: {"error":{"message":"boom","type":"server_error"}}`, "event: error" + p.eol + "data: boom", `data: {"detail":"boom"}`, "Internal Server Error",
		}[p.r.IntN(4)] + p.eol + p.eol)
	case fateClean, fateBroken, fateReset, fateStall, fateLeave:
		if !plan.finished {
			return p.cut(plan, p.r.IntN(cuttable))
		}
	}
	return p.cut(plan, p.sent.Len())
}

// cut ends what is sent at byte n and chooses where it is flushed.
func (p *planner) cut(plan streamPlan, n int) streamPlan {
	plan.sent, plan.want = p.sent.String()[:n], p.want.String()
	for at := 0; at < n && len(plan.pieces) < 40; {
		at += 1 + p.r.IntN(max(1, min(n, []int{3, 200, 5000}[p.r.IntN(3)])))
		plan.pieces = append(plan.pieces, min(at, n))
	}
	return plan
}

func (p *planner) both(s string) {
	p.sent.WriteString(s)
	p.want.WriteString(s)
}

// event writes a chunk, in one data line or in two.
func (p *planner) event(json string) { p.both(p.spell(json)) }

func (p *planner) spell(json string) string {
	if before, after, ok := strings.Cut(json, ","); ok && p.r.IntN(6) == 0 {
		return "data: " + before + "," + p.eol + "data:" + after + p.eol + p.eol
	}
	return "data: " + json + p.eol + p.eol
}

func (p *planner) ending(usage bool) {
	spelled := p.spell(`{"id":"c1","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`)
	p.sent.WriteString(spelled)
	if usage {
		p.want.WriteString(spelled)
	}
	p.both("data: [DONE]" + p.eol + p.eol)
}

// noise writes what stands between chunks.
func (p *planner) noise() {
	switch p.r.IntN(8) {
	case 0:
		p.both(": keep-alive" + p.eol + p.eol)
	case 1:
		p.both("event: ping" + p.eol + "data: {\"error\":\"no failure, a name of its own\"}" + p.eol + p.eol)
	case 2:
		p.both("id: 7" + p.eol + "retry: 10" + p.eol + p.eol + p.eol)
	case 3:
		p.both(":" + p.eol)
	}
}

// text is what one chunk says: mostly a word, at times a megabyte.
func (p *planner) text() string {
	switch n := p.r.IntN(2000); {
	case n == 0:
		return strings.Repeat("long ", 1<<20/5)
	case n < 20:
		return strings.Repeat("x", p.r.IntN(40_000))
	case n < 200:
		return `wörter \" \\n \u00e9 🙂 data: [DONE]`
	}
	return fmt.Sprint("word-", p.r.IntN(1000))
}
