package backup_test

import (
	"errors"
	"iter"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/backup"
	"modeldock.io/internal/budget/jsonledger"
	"modeldock.io/internal/budget/ledgertest"
)

// document is a ledger with every state in it, written out.
func document(t *testing.T) string {
	t.Helper()
	clock := ledgertest.NewClock()
	l, err := jsonledger.Open(filepath.Join(t.TempDir(), "ledger.json"), jsonledger.Options{Clock: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if _, err := l.SetPool(t.Context(), budget.DefaultPool, 8); err != nil {
		t.Fatal(err)
	}
	ledgertest.Fill(t, l, clock)
	return ledgertest.Export(t, t.Context(), l)
}

func check(doc string) (backup.Contents, error) {
	r := backup.NewReader(strings.NewReader(doc))
	head, err := r.Head()
	if err != nil {
		return backup.Contents{}, err
	}
	return backup.Check(head, r.Rows(), exportedAt())
}

func rowsOf(t *testing.T, doc string) iter.Seq[budget.Row] {
	t.Helper()
	return func(yield func(budget.Row) bool) {
		for r, err := range backup.NewReader(strings.NewReader(doc)).Rows() {
			if err != nil {
				t.Fatal(err)
			}
			if !yield(r) {
				return
			}
		}
	}
}

// exportedAt is when the document was written.
func exportedAt() time.Time { return ledgertest.NewClock().Now().Add(2 * time.Minute) }

func TestCheckCountsWhatIsThere(t *testing.T) {
	t.Parallel()
	got, err := check(document(t))
	if err != nil {
		t.Fatal(err)
	}
	want := backup.Contents{Tenants: 2, Pools: 2, Reservations: 7, Entries: 5, Intents: 6, Bindings: 2, Keys: 1, Grants: 1, Audit: 1, FirstChunks: 1}
	if got != want {
		t.Errorf("contents are %+v, want %+v", got, want)
	}
}

// row is the line of a document that has a text.
func row(t *testing.T, doc, has string) string {
	t.Helper()
	for line := range strings.Lines(doc) {
		if strings.Contains(line, has) {
			return line
		}
	}
	t.Fatalf("the document has no row with %s:\n%s", has, doc)
	return ""
}

// between is the text from one mark to the end of the next.
func between(t *testing.T, text, from, to string) string {
	t.Helper()
	at := strings.Index(text, from)
	if at < 0 {
		t.Fatalf("no %s in %s", from, text)
	}
	return text[at : at+len(from)+strings.Index(text[at+len(from):], to)+len(to)]
}

// What ended harms nobody: its model may be one that no submit takes any more.
func TestRequestsThatEndedKeepTheirModels(t *testing.T) {
	t.Parallel()
	doc := document(t)
	for _, id := range []string{"released", "expired", "cancelled"} {
		was := row(t, doc, `"id":"`+id+`","revision"`)
		old := strings.NewReplacer(`"engine":"simulated"`, `"engine":"forgotten"`, `"gpus":1`, `"gpus":65`, `"name":"`+id+`"`, `"name":"a/b/`+id+`"`).Replace(was)
		doc = strings.Replace(doc, was, old, 1)
	}
	delivered := row(t, doc, `"id":"released","op":"apply"`)
	if !strings.Contains(delivered, "deliveredAt") {
		delivered = ""
	}
	doc = strings.Replace(doc, delivered, strings.Replace(delivered, `"gpus":1`, `"gpus":65`, 1), 1)
	if _, err := check(doc); err != nil {
		t.Error(err)
	}
}

// Every kind of spoiled document is refused, and the message says where.
func TestSpoiledDocumentsAreRefused(t *testing.T) {
	t.Parallel()
	doc := document(t)
	running, leased, delivered := row(t, doc, `"id":"running","revision"`), row(t, doc, `"id":"leased","revision"`), row(t, doc, `"id":"running","op":"apply"`)
	created := between(t, running, `"createdAt":"`, `"`)
	waiting := row(t, doc, `"id":"waiting","revision"`)
	for name, c := range map[string]struct{ old, new, says string }{
		"no document":             {doc, `[]`, "must be a JSON object"},
		"another format":          {`modeldock-ledger/1`, `modeldock-ledger/2`, "modeldock-ledger/2"},
		"no incarnation":          {doc[strings.Index(doc, `"incarnation":"`):strings.Index(doc, `,"journalSeq"`)], `"incarnation":""`, "incarnation"},
		"a key too many":          {`"exportedAt"`, `"more":1,"exportedAt"`, `"more" stands where "exportedAt"`},
		"a section twice":         {"\n\"pools\":[", "\n\"tenants\":[", `"tenants" stands where "pools"`},
		"a section missing":       {`"grants":[`, `"grant":[`, `"grant" stands where "grants"`},
		"an unknown column":       {`"specHash"`, `"spekHash"`, "reservations[0]"},
		"a column twice":          {`"held":`, `"held":0,"Held":`, "repeated"},
		"a column missing":        {`"submits":1,`, ``, "submits is required"},
		"null":                    {`"pool":"default","held":0`, `"pool":null,"held":0`, "null"},
		"cut off":                 {doc[len(doc)-40:], ``, "cut off"},
		"trailing data":           {doc[len(doc)-3:], "]}{}", "after its end"},
		"invalid UTF-8":           {`node-1`, "node-\xff", "UTF-8"},
		"no time":                 {`"state":"waiting"`, `"state":"waiting","reservedAt":"soon"`, "not a time"},
		"a hash too short":        {`"secretSha256":"01`, `"secretSha256":"`, "hexadecimal"},
		"an unknown state":        {`"state":"waiting"`, `"state":"dreaming"`, "unknown state"},
		"an unknown tenant":       {`"tenant":"team-b","cap"`, `"tenant":"team-c","cap"`, "not in the copy"},
		"used is no sum":          {`"pool":"default","cap":8,"used":4`, `"pool":"default","cap":8,"used":3`, "pool default used is 3"},
		"a debit too small":       {`"op":"reserve","revision":2,"slots":2`, `"op":"reserve","revision":2,"slots":1`, "request team-a/releasing"},
		"a credit too many":       {`"op":"release"`, `"op":"refund"`, `unknown op "refund"`},
		"numbers that go back":    {`"seq":3,"tenant":"team-a","id":"releasing"`, `"seq":1,"tenant":"team-a","id":"releasing"`, "numbers begin at 1 and grow"},
		"a number above the head": {`"journalSeq":5`, `"journalSeq":4`, "above the copy's journalSeq 4"},
		"a shared uid":            {`"uid":"uid-releasing"`, `"uid":"uid-running"`, "shares uid uid-running"},
		"half a lease":            {`"leaseOwner":"a relay that died",`, ``, "half a lease"},
		"a role of no kind":       {`"role":"tenant"`, `"role":"root"`, `unknown role "root"`},
		"a cost of nothing":       {`"cost":1`, `"cost":0`, "cost must be an integer from 1"},
		"a model served twice":    {`"model":{"name":"leased"`, `"model":{"name":"running"`, "serves too"},
		"no card":                 {running, strings.Replace(running, `"gpus":1`, `"gpus":0`, 1), "request team-a/running cannot be: model.gpus must be an integer from 1 to 64; got 0"},
		"memory below zero":       {running, strings.Replace(running, `"gpuMemoryMiB":4096`, `"gpuMemoryMiB":-1`, 1), "model.gpuMemoryMiB"},
		"millions of replicas":    {running, strings.Replace(running, `"min":1,"max":1`, `"min":200000000,"max":200000000`, 1), "model.replicas.min"},
		"a sum that overflows":    {leased, strings.Replace(leased, `"min":1,"max":1`, `"min":9223372036854775807,"max":9223372036854775807`, 1), "model.replicas.min"},
		"an engine of no kind":    {running, strings.Replace(running, `"engine":"simulated"`, `"engine":"magic"`, 1), "model.engine"},
		"a row that is delivered": {delivered, strings.Replace(delivered, `"gpus":1`, `"gpus":65`, 1), "outbox row 3 of request team-a/running cannot be: model.gpus"},
		"funded without end":      {`"fundedReplicas":1,"attempts":1`, `"fundedReplicas":1001,"attempts":1`, "1001 replicas are funded"},
		"an id that is a path":    {`"id":"expired"`, `"id":"a/b"`, "id must be 1 to 128 characters"},
		"an id on two lines":      {`"id":"expired"`, `"id":"a\nb"`, "id must be 1 to 128 characters"},
		"a tenant that is a path": {`"tenant":"team-b","cap"`, `"tenant":"../x","cap"`, "tenant must be 1 to 128 characters"},
		"a pool that is a path":   {`"pool":"spare","cap"`, `"pool":"a/b","cap"`, "pool must be 1 to 128 characters"},
		"a cap without end":       {`"pool":"spare","cap":2`, `"pool":"spare","cap":9000000000000000000`, "cap must be an integer"},
		"an engine of no name":    {`"engines":["custom"`, `"engines":[""`, "engines of tenant team-a"},
		"a key of no kind":        {`"id":"k1"`, `"id":"k/1"`, "the id must be 1 to 64 characters"},
		"a grant of no model":     {`"owner":"team-a","model":"running"`, `"owner":"team-a","model":"a b"`, "model must be 1 to 128 characters"},
		"a grant to its owner":    {`"grantee":"team-b"`, `"grantee":"team-a"`, "needs no grant"},
		"an object in a folder":   {`"name":"md-uid-running"`, `"name":"../md"`, "name must be 1 to 128 characters"},
		"limits that cannot be":   {`"requestsPerMinute":`, `"requestsPerMinute":-`, "requestsPerMinute"},
		"more hours than a pool":  {`"gpuHoursPerDay":`, `"gpuHoursPerDay":-`, "gpuHoursPerDay"},
		"a number without a next": {`"journalSeq":5`, `"journalSeq":9223372036854775807`, "journalSeq is 9223372036854775807"},
		"slots without end":       {`"op":"release","revision":4,"slots":-1`, `"op":"release","revision":4,"slots":-9223372036854775808`, "it moves -9223372036854775808 slots"},
		"a time that is none":     {created, `"createdAt":"0001-01-01T00:00:00Z"`, "createdAt is empty, or no time"},
		"waiting for ever":        {waiting, strings.Replace(waiting, between(t, waiting, `"expiresAt":"`, `"`), `"expiresAt":"9999-01-01T00:00:00Z"`, 1), "ttlSeconds"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			isRefused(t, doc, c.old, c.new, c.says)
		})
	}
}

// isRefused fails unless doc is refused with old replaced, and says why.
func isRefused(t *testing.T, doc, old, replaced, says string) {
	t.Helper()
	spoiled := strings.Replace(doc, old, replaced, 1)
	if spoiled == doc {
		t.Fatalf("nothing was spoiled: the document has no %q", old)
	}
	_, err := check(spoiled)
	var malformed *backup.MalformedError
	var refused *budget.CopyRefusedError
	if !errors.As(err, &malformed) && !errors.As(err, &refused) {
		t.Fatalf("got %v, want a refusal", err)
	}
	if !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("the message %q does not say %q and that nothing was changed", err, says)
	}
}

func TestRowsInTheWrongOrderAreNotWritten(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	w := backup.NewWriter(&out)
	if err := errors.Join(w.Head(budget.CopyHead{Incarnation: "x"}), w.Row(budget.Pool{Name: "p"})); err != nil {
		t.Fatal(err)
	}
	if err := w.Row(budget.Tenant{Name: "t"}); err == nil {
		t.Error("a tenant after the pools was written")
	}
}
