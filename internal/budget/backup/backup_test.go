package backup_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

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
	return backup.Check(head, r.Rows())
}

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

// Every kind of spoiled document is refused, and the message says where.
func TestSpoiledDocumentsAreRefused(t *testing.T) {
	t.Parallel()
	doc := document(t)
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
		"a cost of nothing":       {`"cost":1`, `"cost":0`, "cost 0"},
		"a model served twice":    {`"model":{"name":"leased"`, `"model":{"name":"running"`, "serves too"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spoiled := strings.Replace(doc, c.old, c.new, 1)
			if spoiled == doc {
				t.Fatalf("nothing was spoiled: the document has no %q", c.old)
			}
			_, err := check(spoiled)
			var malformed *backup.MalformedError
			var refused *budget.CopyRefusedError
			if !errors.As(err, &malformed) && !errors.As(err, &refused) {
				t.Fatalf("got %v, want a refusal", err)
			}
			if !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "nothing was changed") {
				t.Errorf("the message %q does not say %q and that nothing was changed", err, c.says)
			}
		})
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
