package local

import (
	"testing"

	"modeldock.io/internal/modelspec"
)

// The journal's number stands on the object, is kept over a restart and only
// rises when the object is written.
func TestJournalNumberStandsOnTheObject(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := desired("team-a", "demo")
	d.JournalSeq = 5
	b.apply(d)
	if got := b.status(d).JournalSeq; got != 5 {
		t.Errorf("a new object carries %d, want 5", got)
	}
	d.JournalSeq = 9
	b.apply(d) // nothing to write
	d.Generation, d.Model.Traffic.Weight = 2, 7
	d.JournalSeq = 8
	b.apply(d)
	if got := b.status(d).JournalSeq; got != 8 {
		t.Errorf("a changed object carries %d, want 8", got)
	}
	d.Generation, d.JournalSeq = 3, 2
	b.apply(d)
	b.stop(b.target)
	b.start()
	if got := b.status(d).JournalSeq; got != 8 {
		t.Errorf("after a restart it carries %d, want 8: it never falls", got)
	}
}

// Objects of another ledger are left alone until its ledger is imported; then
// they run under their own UID. A target that runs objects changes no ledger.
func TestAdoptedObjectsRunUnderTheirUID(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := desired("team-a", "demo", func(m *modelspec.Model) { m.Name = "old" })
	obj := b.apply(d)
	b.untilReady(d)
	if err := b.target.Adopt("ledger-2"); err == nil {
		t.Error("a target with objects took another ledger")
	}
	b.stop(b.target)
	b.cfg.Ledger = "ledger-2"
	b.start()
	if st := b.status(d); st.Exists {
		t.Fatalf("another ledger's object counts as ours: %+v", st)
	}
	if err := b.target.Adopt(ledger); err != nil {
		t.Fatal(err)
	}
	if st := b.untilReady(d); st.Object != obj {
		t.Errorf("object %+v became %+v", obj, st.Object)
	}
	list, err := b.target.List(t.Context())
	if err != nil || len(list) != 1 || list[0].Ledger != ledger {
		t.Errorf("the target lists %+v (%v), want the one object", list, err)
	}
	b.cfg.Ledger = ledger
}
