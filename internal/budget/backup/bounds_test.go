package backup_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/budget"
)

// Nothing has happened that is still to come, in no row and by no column.
func TestRowsOfTheFutureAreRefused(t *testing.T) {
	t.Parallel()
	doc := document(t)
	const late = `2026-03-02T12:02:00.000001Z` // a day and a microsecond later
	moments := 0
	for line := range strings.Lines(doc) {
		for _, field := range []string{
			"exportedAt", "createdAt", "reservedAt", "releaseRequestedAt", "releasedAt", "at", "nextAttemptAt", "leaseUntil", "deliveredAt",
			"boundAt", "firstReadyAt", "goneAt", "revokedAt", "lastUsedAt", "endedAt", "when", "sentAt", "firstByteAt", "doneAt",
		} {
			mark := `"` + field + `":"`
			if !strings.Contains(line, mark) {
				continue
			}
			moments++
			isRefused(t, doc, line, strings.Replace(line, between(t, line, mark, `"`), mark+late+`"`, 1), field+` `+late+`, more than 24h0m0s after this machine's 2026-03-01T12:02:00.000000Z`)
			just := strings.Replace(line, between(t, line, mark, `"`), mark+`2026-03-02T12:02:00.000000Z"`, 1)
			if _, err := check(strings.Replace(doc, line, just, 1)); err != nil && strings.Contains(err.Error(), "this machine's") {
				t.Errorf("%s of a clock that is a day ahead: %v", field, err)
			}
		}
	}
	if moments < 40 {
		t.Errorf("only %d times were judged", moments)
	}
	key, bound := row(t, doc, `"secretSha256"`), row(t, doc, `"uid":"uid-running"`)
	chunk := row(t, doc, `"requestId"`)
	for field, c := range map[string]struct{ line, before string }{
		"revokedAt": {key, `}`}, "lastUsedAt": {key, `}`}, "goneAt": {bound, `}`}, "firstByteAt": {chunk, `},"latest"`}, "doneAt": {chunk, `},"latest"`},
	} {
		isRefused(t, doc, c.line, strings.Replace(c.line, c.before, `,"`+field+`":"`+late+`"`+c.before, 1), field+" "+late)
	}
}

// A ledger that was taken in with the highest numbers that are taken goes on,
// and what it exports then is taken, too: the bound grows faster than numbers
// are given out.
func TestNumbersLeaveRoom(t *testing.T) {
	t.Parallel()
	doc := document(t)
	most := budget.MostGivenOut(exportedAt())
	above, at := strconv.FormatInt(most+1, 10), strconv.FormatInt(most, 10)
	audited, waiting := row(t, doc, `"who":`), row(t, doc, `"id":"waiting","revision"`)
	last, leased := row(t, doc, `"id":"cancelled","revision"`), row(t, doc, `"id":"leased","op":"apply"`)
	for name, c := range map[string]struct{ line, old, format, says string }{
		"journal seq":     {doc, `"journalSeq":5`, `"journalSeq":%s`, "the head has journalSeq " + above},
		"arrival":         {last, `"seq":7`, `"seq":%s`, "request team-b/cancelled has number " + above},
		"revision":        {waiting, `"revision":1`, `"revision":%s`, "request team-a/waiting cannot be: the revision is " + above},
		"generation":      {waiting, `"generation":1`, `"generation":%s`, "the generation is " + above},
		"submits":         {waiting, `"submits":1`, `"submits":%s`, "the number of submits is " + above},
		"outbox":          {leased, `"seq":6`, `"seq":%s`, "has number " + above},
		"attempts":        {leased, `"attempts":1`, `"attempts":%s`, above + " attempts"},
		"audit":           {audited, `"seq":1`, `"seq":%s`, "audit entry " + above + " has number " + above},
		"journal":         {row(t, doc, `"id":"leased","pool"`), `"seq":5`, `"seq":%s`, "has number " + above},
		"journal's state": {row(t, doc, `"id":"leased","pool"`), `"revision":2`, `"revision":%s`, "its revision is " + above},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			isRefused(t, doc, c.line, strings.Replace(c.line, c.old, fmt.Sprintf(c.format, above), 1), c.says)
			_, err := check(strings.Replace(doc, c.line, strings.Replace(c.line, c.old, fmt.Sprintf(c.format, at), 1), 1))
			if err != nil && strings.Contains(err.Error(), "since 1970") {
				t.Errorf("the highest number that can have been given out: %v", err)
			}
		})
	}
	if later := budget.MostGivenOut(exportedAt().Add(time.Second)); later < most+1_000_000 {
		t.Errorf("a second later numbers go to %d, were %d", later, most)
	}
	if end := budget.MostGivenOut(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)); end != budget.MaxNumber {
		t.Errorf("numbers go to %d in the end, must stay exact: %d", end, int64(budget.MaxNumber))
	}
}

// What runs is what was asked for, and what is told to a target.
func TestModelsThatDifferAreRefused(t *testing.T) {
	t.Parallel()
	doc := document(t)
	reserved, told, open := row(t, doc, `"id":"running","revision"`), row(t, doc, `"id":"running","op":"apply"`), row(t, doc, `"id":"leased","op":"apply"`)
	otherModel := strings.NewReplacer(`"engine":"simulated"`, `"engine":"custom","command":["/bin/sh"]`)
	for name, c := range map[string]struct{ old, new, says string }{
		"delivered":            {told, otherModel.Replace(told), "its model running@v1 (custom) is not the one of its request at the same generation 1"},
		"not delivered":        {open, otherModel.Replace(open), "its model leased@v1 (custom) is not the one of its request"},
		"another weight":       {told, strings.Replace(told, `"weight":100`, `"weight":1`, 1), "is not the one of its request"},
		"of a later time":      {told, strings.Replace(told, `"generation":1`, `"generation":2`, 1), "its generation is 2 and its request is at 1"},
		"a hash of another":    {reserved, strings.Replace(reserved, `"specHash":"v1:f`, `"specHash":"v1:e`, 1), `specHash is "v1:e93652488592559fd02a65e94f43d247f1d7bdc91ec9c7b96ce029afee5b207b", and that of its cost`},
		"a hash without end":   {reserved, strings.Replace(reserved, `"specHash":"v1:`, `"specHash":"v0:`+strings.Repeat("0", 100), 1), "has a specHash of 167 bytes; one has 1 to 128"},
		"a patch of an engine": {reserved + told, "", ""},
	} {
		if c.says == "" {
			// At generation 2 the model was patched: its outbox row of generation 1
			// may have another weight, and no other engine.
			patched := strings.NewReplacer(`"generation":1`, `"generation":2`, `"weight":100`, `"weight":7`).Replace(reserved)
			second := strings.NewReplacer(`"seq":3`, `"seq":7`, `"generation":1`, `"generation":2`, `"weight":100`, `"weight":7`).Replace(told)
			c.old = strings.Replace(strings.Replace(doc, reserved, patched, 1), strings.TrimRight(open, "],\n"), strings.TrimRight(open, "],\n")+",\n"+strings.TrimRight(second, "],\n"), 1)
			if _, err := check(c.old); err != nil {
				t.Errorf("a request whose weight was changed: %v", err)
			}
			isRefused(t, c.old, told, otherModel.Replace(told), "differs from its request's in more than a patch can change")
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			isRefused(t, doc, c.old, c.new, c.says)
		})
	}
	// The form of a hash may have been another one before, and says so.
	if _, err := check(strings.Replace(doc, reserved, strings.Replace(reserved, `"specHash":"v1:f`, `"specHash":"v0:f`, 1), 1)); err != nil {
		t.Errorf("a hash of another form: %v", err)
	}
}

// Texts are as large as ModelDock writes them.
func TestTextsWithoutEndAreRefused(t *testing.T) {
	t.Parallel()
	doc := document(t)
	long, longer := strings.Repeat("x", 256), strings.Repeat("x", 64<<10+1)
	key := row(t, doc, `"secretSha256"`)
	for name, c := range map[string]struct{ old, new, says string }{
		"node":          {`"node":"node-1"`, `"node":"` + long + `"`, "request team-a/running has a node of 256 bytes; one has 0 to 255"},
		"lease's owner": {`"leaseOwner":"a relay that died"`, `"leaseOwner":"` + long + `"`, "has a leaseOwner of 256 bytes"},
		"who":           {`"who":"admin k0"`, `"who":"` + long + `"`, "audit entry 1 cannot be: its who has 256 bytes; at most 255 are written"},
		"what":          {`"what":"`, `"what":"` + longer, "bytes; at most 65536 are written"},
		"why":           {`"why":"`, `"why":"` + longer, "its why has"},
		"result":        {`"result":"`, `"result":"` + longer, "its result has"},
		"source":        {`"source":"`, `"source":"` + long, "its source has"},
		"whose":         {`"result":"ok","tenant":"team-a"`, `"result":"ok","tenant":"../a"`, "audit entry 1 cannot be: tenant must be"},
		"call":          {`"requestId":"`, `"requestId":"` + long, "first chunk of request team-a/running has a requestId of 262 bytes"},
		"endpoint":      {`"latest":{"requestId":"call-1","endpointUid":"`, `"latest":{"requestId":"call-1","endpointUid":"` + long, "has a endpointUid of 257 bytes"},
		"caller":        {`"caller":"`, `"caller":"` + long, "has a caller of 262 bytes"},
		"chunk":         {`"id":"running","first":`, `"id":"a/b","first":`, "id must be 1 to 128 characters"},
		"ledger":        {`"incarnation":"`, `"incarnation":"../`, "the head cannot be: incarnation must be"},
		"a key twice":   {key, strings.TrimRight(key, "],\n") + ",\n" + strings.Replace(key, `"id":"k1"`, `"id":"k2"`, 1), "key k2 has the secret of key k1"},
		"a key for ever": {`,"createdAt":"2026-03-01T12:00:00.000000Z"}],
"grants"`, `,"createdAt":"2026-03-01T12:00:00.000000Z","expiresAt":"9999-01-01T00:00:00Z"}],
"grants"`, "a key that expires lives up to 3660 days"},
		"ended, and waited for ever": {`"state":"expired","pool":"default","held":0,"fundedReplicas":0,"submits":1,"createdAt":"2026-03-01T12:00:00.000000Z","expiresAt":"2026-`, `"state":"expired","pool":"default","held":0,"fundedReplicas":0,"submits":1,"createdAt":"2026-03-01T12:00:00.000000Z","expiresAt":"9026-`, "request team-b/expired cannot be: ttlSeconds"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			isRefused(t, doc, c.old, c.new, c.says)
		})
	}
}

// What a target said of a failed delivery was once kept whole: it is cut, and
// the rest taken.
func TestLongErrorsOfTargetsAreCut(t *testing.T) {
	t.Parallel()
	doc := strings.Replace(document(t), `"lastError":"superseded"`, `"lastError":"`+strings.Repeat("é", 5000)+`"`, 1)
	if _, err := check(doc); err != nil {
		t.Fatal(err)
	}
	for r := range rowsOf(t, doc) {
		if in, ok := r.(budget.Intent); ok && in.ID == "released" && in.Op == budget.Apply {
			if !strings.HasSuffix(in.LastError, "é…") || len(in.LastError) != 4096+len("…") {
				t.Errorf("%d bytes of it are left: …%s", len(in.LastError), in.LastError[len(in.LastError)-8:])
			}
		}
	}
}

// A program from before ended grants were remembered grants anew beside one.
func TestGrantsGivenAgainAreLive(t *testing.T) {
	t.Parallel()
	doc := document(t)
	live := row(t, doc, `"grantee":"team-b"`)
	plain := strings.TrimRight(live, ",\n")
	again := strings.Replace(doc, live, live+strings.Replace(plain, `"}`, `","endedAt":"2026-03-01T12:00:00.000000Z"}`, 1)+",\n", 1)
	if got, err := check(again); err != nil || got.Grants != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	for r := range rowsOf(t, again) {
		if g, ok := r.(budget.EndedGrant); ok && g.Grantee == "team-b" {
			t.Errorf("a grant that is live has ended, too: %+v", g)
		}
	}
	isRefused(t, doc, live, live+live, "is there twice")
}
