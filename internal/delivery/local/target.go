package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
)

// Target is a delivery target.
var _ delivery.Target = (*Target)(nil)

// Apply writes the object's record and returns; the loop does the rest.
func (t *Target) Apply(_ context.Context, d delivery.Desired) (budget.Object, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d.Ledger != t.cfg.Ledger {
		return budget.Object{}, fmt.Errorf("apply %s: it belongs to ledger %s, and this machine runs for ledger %s", d.Name, d.Ledger, t.cfg.Ledger)
	}
	if t.closing {
		return budget.Object{}, fmt.Errorf("apply %s: ModelDock is stopping; it is delivered after the next start", d.Name)
	}
	o, err := t.find(d.Name)
	if err != nil {
		return budget.Object{}, err
	}
	if o == nil {
		return t.create(d)
	}
	if o.rec.ref() != d.Ref {
		return budget.Object{}, fmt.Errorf("apply %s: the object belongs to request %s of tenant %s: %w", d.Name, o.rec.ref().ID, o.rec.ref().Tenant, delivery.ErrNameTaken)
	}
	if !o.rec.DeletingAt.IsZero() {
		return budget.Object{}, fmt.Errorf("apply %s: the object (uid %s) is being deleted; tried again once it is gone", d.Name, o.rec.UID)
	}
	if d.Generation < o.rec.Generation {
		return o.rec.object(), nil // an old intent, delivered late
	}
	next := o.rec
	next.Generation, next.Model, next.Funded = d.Generation, d.Model, d.Funded
	next.keepAsked(o.rec.asked())
	if next.Generation != o.rec.Generation || next.Funded != o.rec.Funded || next.process() != o.rec.process() {
		next.Annotations = o.rec.stamped(d.JournalSeq)
		if err := t.store.Save(next); err != nil {
			return budget.Object{}, err
		}
		o.advance(next)
		t.poke()
	}
	return o.rec.object(), nil
}

// find returns the object of a name, nil if the name is free. A file that is
// not ours is left as it is.
func (t *Target) find(name string) (*object, error) {
	if o := t.objects[name]; o != nil {
		return o, nil
	}
	rec, err := t.store.Read(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		delete(t.foreign, name)
		return nil, nil
	case err != nil && !errors.Is(err, errUnreadable):
		return nil, err
	case !rec.Owned(name, t.cfg.Ledger):
		t.foreign[name] = rec
		return nil, fmt.Errorf("apply %s: %s is not an object of this ledger and was left untouched; the slots are kept, and delivery succeeds by itself once the file is moved away: %w",
			name, t.store.path(name), delivery.ErrNameTaken)
	}
	o := newObject(rec) // somebody put the record back
	o.recall(t.facts)
	t.objects[name] = o
	t.poke()
	return o, nil
}

func (t *Target) create(d delivery.Desired) (budget.Object, error) {
	rec := record{
		Version: recordVersion, UID: d.UID, Name: d.Name,
		Annotations: map[string]string{annotationTenant: d.Ref.Tenant, annotationID: d.Ref.ID, annotationLedger: d.Ledger},
		Generation:  d.Generation, Model: d.Model, Funded: d.Funded, CreatedAt: t.now().UTC(),
	}
	if rec.UID == "" {
		rec.UID = newUID()
	}
	rec.keepAsked(d.Funded)
	rec.Annotations = rec.stamped(d.JournalSeq)
	if !rec.Owned(d.Name, t.cfg.Ledger) {
		return budget.Object{}, fmt.Errorf("apply %s: the name does not belong to request %s of tenant %s", d.Name, d.Ref.ID, d.Ref.Tenant)
	}
	err := t.store.Create(rec)
	if errors.Is(err, errExists) {
		return budget.Object{}, fmt.Errorf("apply %s: the name was taken just now: %w", d.Name, delivery.ErrNameTaken)
	}
	if err != nil {
		return budget.Object{}, err
	}
	t.objects[d.Name] = newObject(rec)
	t.log.Info("object created", "object", rec.Name, "uid", rec.UID)
	t.poke()
	return rec.object(), nil
}

// Delete marks the object as going away; the loop drains and stops it.
func (t *Target) Delete(_ context.Context, ref budget.Ref, uid string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.objects[delivery.ObjectName(ref)]
	if o == nil || o.rec.ref() != ref || (uid != "" && o.rec.UID != uid) || !o.rec.DeletingAt.IsZero() {
		return nil
	}
	next := o.rec
	next.DeletingAt = t.now().UTC()
	if err := t.store.Save(next); err != nil {
		return err
	}
	o.rec = next
	t.poke()
	return nil
}

// Observe reports what is there of ref's object.
func (t *Target) Observe(_ context.Context, ref budget.Ref) (delivery.Status, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	name := delivery.ObjectName(ref)
	o := t.objects[name]
	if o != nil && o.rec.ref() == ref {
		return t.status(o), nil
	}
	st := delivery.Status{Ref: ref, ObservedAt: t.now()}
	if known := t.facts.Read(name); known.UID != "" {
		st.Object, st.Last, st.LastFailure = budget.Object{Name: name, UID: known.UID}, known.Last, known.Failure
	}
	if _, taken := t.foreign[name]; taken {
		st.Reason, st.Message = delivery.NameTaken, fmt.Sprintf("%s is not an object of this ledger", t.store.path(name))
	}
	return st, nil
}

// List reports every object, also those of another ledger, which are marked
// NotOwned and left alone.
func (t *Target) List(_ context.Context) ([]delivery.Status, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []delivery.Status
	for _, name := range slices.Sorted(maps.Keys(t.objects)) {
		out = append(out, t.status(t.objects[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(t.foreign)) {
		rec := t.foreign[name]
		out = append(out, delivery.Status{
			Ref: rec.ref(), Object: budget.Object{Name: name, UID: rec.UID}, Ledger: rec.ledger(), JournalSeq: rec.journalSeq(), Exists: true,
			Generation: rec.Generation, Reason: delivery.NotOwned, ObservedAt: t.now(),
			Message: fmt.Sprintf("%s is not an object of this ledger and was left untouched", t.store.path(name)),
		})
	}
	return out, nil
}
