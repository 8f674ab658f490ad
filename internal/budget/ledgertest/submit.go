package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/modelspec"
)

func runSubmit(t *testing.T, open Opener) {
	for name, run := range map[string]func(*bundle){
		"the same payload is the same record, in every state":   sameRecord,
		"a changed payload conflicts and names the field":       changedPayload,
		"ids differ byte for byte":                              ids,
		"two tenants may use one id":                            twoTenants,
		"invalid submissions leave nothing behind":              invalid,
		"an unknown pool is refused":                            unknownPool,
		"a model is served by one live request at a time":       modelInUse,
		"an unknown tenant is created with nothing to spend":    newTenant,
		"fifty identical submits at once are one reservation":   fiftyIdentical,
		"lists filter and page in arrival order":                lists,
		"who waits is cut by even shares of the tenants":        waitersShare,
		"a submission keeps all of its model":                   wholeModel,
		"a context that has ended is told that nothing is sure": endedContext,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(setup(t, open, 100))
		})
	}
}

func sameRecord(b *bundle) {
	b.quota("team-a", 10)
	first := b.submit("team-a", "s1", 7, 3)
	equal(b, "submits", first.Submits, 1)
	equal(b, "state", first.State, budget.Waiting)
	b.clock.Advance(time.Second)
	second := b.submit("team-a", "s1", 7, 3)
	equal(b, "submits", second.Submits, 2)
	equal(b, "creation time", second.CreatedAt, first.CreatedAt)
	equal(b, "seq", second.Seq, first.Seq)
	equal(b, "revision", second.Revision, first.Revision)
	b.admit()
	equal(b, "state after admission", b.submit("team-a", "s1", 7, 3).State, budget.Reserved)
	b.credit(first.Ref)
	last := b.submit("team-a", "s1", 7, 3)
	equal(b, "state after release", last.State, budget.Released)
	equal(b, "submits", last.Submits, 4)
	equal(b, "admitted again", len(b.admit()), 0)
	b.used("team-a", 0, "default", 0)
}

func changedPayload(b *bundle) {
	b.pool("other", 5)
	base := submission("team-a", "s1", 7, 3)
	_, err := b.Submit(b.ctx, base)
	b.ok(err)
	for field, change := range map[string]func(*budget.Submission){
		"cost":               func(s *budget.Submission) { s.Cost = 8 },
		"priority":           func(s *budget.Submission) { s.Priority = 4 },
		"pool":               func(s *budget.Submission) { s.Pool = "other" },
		"ttlSeconds":         func(s *budget.Submission) { s.TTL += time.Second },
		"model.version":      func(s *budget.Submission) { s.Model.Version = "v2" },
		"model.replicas.max": func(s *budget.Submission) { s.Model.Replicas.Max = 2 },
		"model.args":         func(s *budget.Submission) { s.Model.Args = []string{"--fast"} },
		"model.env.A":        func(s *budget.Submission) { s.Model.Env = map[string]string{"A": "1"} },
	} {
		changed := base
		change(&changed)
		_, err := b.Submit(b.ctx, changed)
		var conflict *budget.ConflictError
		if !errors.As(err, &conflict) {
			b.Fatalf("changed %s: got %v, want a conflict", field, err)
		}
		if conflict.Field != field && field != "model.env.A" {
			b.Fatalf("changed %s: the conflict names %s", field, conflict.Field)
		}
	}
	got := b.get("team-a", "s1")
	equal(b, "cost", got.Cost, 7)
	equal(b, "priority", got.Priority, 3)
	equal(b, "submits", got.Submits, 1)
}

func ids(b *bundle) {
	b.submit("team-a", "job-a", 10, 1)
	b.submit("team-a", "JOB-A", 20, 1)
	equal(b, "cost of job-a", b.get("team-a", "job-a").Cost, 10)
	equal(b, "cost of JOB-A", b.get("team-a", "JOB-A").Cost, 20)
	equal(b, "id", b.get("team-a", "JOB-A").ID, "JOB-A")
	_, err := b.Get(b.ctx, budget.Ref{Tenant: "team-a", ID: "Job-a"})
	b.is(err, budget.ErrNotFound)
	_, err = b.Get(b.ctx, budget.Ref{Tenant: "Team-a", ID: "job-a"})
	b.is(err, budget.ErrNotFound)
	for _, id := range []string{"a-b", "a_b", "a.b", "A-b", "a..b", "9a"} {
		b.submit("team-a", id, 1, 1)
		equal(b, "id", b.get("team-a", id).ID, id)
	}
}

func twoTenants(b *bundle) {
	b.quota("team-a", 10)
	b.quota("team-b", 10)
	b.submit("team-a", "train", 5, 1)
	b.submit("team-b", "train", 9, 1)
	equal(b, "cost for team-a", b.get("team-a", "train").Cost, 5)
	equal(b, "cost for team-b", b.get("team-b", "train").Cost, 9)
	equal(b, "admitted", len(b.admit()), 2)
	b.credit(budget.Ref{Tenant: "team-b", ID: "train"})
	b.state("train", budget.Reserved)
	b.used("team-a", 5, "default", 5)
}

func invalid(b *bundle) {
	for field, cases := range map[string][]func(*budget.Submission){
		"id": {
			func(s *budget.Submission) { s.ID = "" }, func(s *budget.Submission) { s.ID = "a/b" },
			func(s *budget.Submission) { s.ID = "-a" }, func(s *budget.Submission) { s.ID = "a-" },
			func(s *budget.Submission) { s.ID = "a\nb" }, func(s *budget.Submission) { s.ID = "中文" },
			func(s *budget.Submission) { s.ID = "." }, func(s *budget.Submission) { s.ID = "a b" },
		},
		"cost": {
			func(s *budget.Submission) { s.Cost = 0 }, func(s *budget.Submission) { s.Cost = -1 },
			func(s *budget.Submission) { s.Cost = budget.MaxCost + 1 },
		},
		"priority":   {func(s *budget.Submission) { s.Priority = -1 }, func(s *budget.Submission) { s.Priority = 101 }},
		"pool":       {func(s *budget.Submission) { s.Pool = "" }, func(s *budget.Submission) { s.Pool = "a b" }},
		"ttlSeconds": {func(s *budget.Submission) { s.TTL = 0 }, func(s *budget.Submission) { s.TTL = 1500 * time.Millisecond }},
		"tenant":     {func(s *budget.Submission) { s.Tenant = "" }},
		"model.gpus": {func(s *budget.Submission) { s.Model.GPUs = 0 }},
	} {
		for _, change := range cases {
			s := submission("team-a", "x", 1, 1)
			change(&s)
			_, err := b.Submit(b.ctx, s)
			var wrong *modelspec.FieldError
			if !errors.As(err, &wrong) || wrong.Field != field {
				b.Fatalf("%+v: got %v, want an error of field %s", s.Ref, err, field)
			}
		}
	}
	all, err := b.List(b.ctx, budget.Filter{})
	b.ok(err)
	equal(b, "rows", len(all), 0)
	tenants, err := b.Tenants(b.ctx)
	b.ok(err)
	equal(b, "tenants", len(tenants), 0)
}

func unknownPool(b *bundle) {
	s := submission("team-a", "x", 1, 1)
	s.Pool = "nowhere"
	_, err := b.Submit(b.ctx, s)
	var unknown *budget.UnknownPoolError
	if !errors.As(err, &unknown) || unknown.Pool != "nowhere" {
		b.Fatalf("got %v, want an unknown pool", err)
	}
	_, err = b.Get(b.ctx, s.Ref)
	b.is(err, budget.ErrNotFound)
	_, err = b.Tenant(b.ctx, "team-a")
	b.is(err, budget.ErrNotFound)
}

func modelInUse(b *bundle) {
	b.quota("team-a", 10)
	first := submission("team-a", "one", 1, 1)
	first.Model.Name = "tiny"
	_, err := b.Submit(b.ctx, first)
	b.ok(err)
	second := submission("team-a", "two", 1, 1)
	second.Model.Name = "tiny"
	var inUse *budget.ModelInUseError
	for _, state := range []budget.State{budget.Waiting, budget.Reserved} {
		b.state("one", state)
		if _, err = b.Submit(b.ctx, second); !errors.As(err, &inUse) || inUse.Holder != "one" {
			b.Fatalf("got %v, want model_in_use by request one", err)
		}
		b.admit()
	}
	other := second
	other.Model.Version = "v2"
	other.ID = "three"
	_, err = b.Submit(b.ctx, other)
	b.ok(err)
	foreign := second
	foreign.Tenant = "team-b"
	_, err = b.Submit(b.ctx, foreign)
	b.ok(err)
	b.credit(first.Ref)
	_, err = b.Submit(b.ctx, second)
	b.ok(err)
}

func newTenant(b *bundle) {
	b.submit("team-new", "x", 1, 1)
	t, err := b.Tenant(b.ctx, "team-new")
	b.ok(err)
	equal(b, "cap", t.Cap, 0)
	equal(b, "admitted", len(b.admit()), 0)
	b.reason("team-new", "x", budget.ExceedsQuota)
}

func fiftyIdentical(b *bundle) {
	b.quota("team-a", 10)
	records := make([]budget.Reservation, 50)
	errs := make([]error, 50)
	var all sync.WaitGroup
	for i := range records {
		all.Go(func() {
			records[i], errs[i] = b.Submit(b.ctx, submission("team-a", "race", 3, 1))
			if i%10 == 0 {
				_, err := b.Admit(b.ctx, 0)
				errs[i] = errors.Join(errs[i], err)
			}
		})
	}
	all.Wait()
	b.ok(errors.Join(errs...))
	for _, r := range records {
		equal(b, "creation time", r.CreatedAt, records[0].CreatedAt)
		equal(b, "seq", r.Seq, records[0].Seq)
		equal(b, "cost", r.Cost, 3)
	}
	b.admit()
	got := b.get("team-a", "race")
	equal(b, "submits", got.Submits, 50)
	equal(b, "state", got.State, budget.Reserved)
	b.used("team-a", 3, "default", 3)
	rows, err := b.Intents(b.ctx, got.Ref)
	b.ok(err)
	equal(b, "outbox rows", len(rows), 1)
}

func lists(b *bundle) {
	b.quota("team-a", 1)
	for _, id := range []string{"c", "a", "b"} {
		b.submit("team-a", id, 1, 50)
	}
	b.submit("team-b", "d", 1, 50)
	b.admit()
	for _, c := range []struct {
		filter budget.Filter
		want   []string
	}{
		{budget.Filter{}, []string{"c", "a", "b", "d"}},
		{budget.Filter{Tenant: "team-a"}, []string{"c", "a", "b"}},
		{budget.Filter{State: budget.Reserved}, []string{"c"}},
		{budget.Filter{Tenant: "team-a", State: budget.Waiting}, []string{"a", "b"}},
		{budget.Filter{Model: "b"}, []string{"b"}},
		{budget.Filter{Limit: 2}, []string{"c", "a"}},
		{budget.Filter{AfterSeq: b.get("team-a", "a").Seq, Limit: 1}, []string{"b"}},
		{budget.Filter{ReleasePending: true}, nil},
		{budget.Filter{Tenant: "nobody"}, nil},
	} {
		got, err := b.List(b.ctx, c.filter)
		b.ok(err)
		equal(b, "list length", len(got), len(c.want))
		for i := range got {
			equal(b, "listed id", got[i].ID, c.want[i])
		}
	}
	_, err := b.RequestRelease(b.ctx, budget.Ref{Tenant: "team-a", ID: "c"})
	b.ok(err)
	got, err := b.List(b.ctx, budget.Filter{ReleasePending: true, Tenant: "team-a"})
	b.ok(err)
	equal(b, "releasing", len(got), 1)
}

// waitersShare: whoever has most is cut first, behind in its own queue.
func waitersShare(b *bundle) {
	b.quota("team-c", 1)
	b.submit("team-c", "runs", 1, 50)
	b.admit()
	for _, id := range []string{"a1", "a2", "a3", "a4"} {
		b.submit("team-a", id, 1, 50)
	}
	b.submit("team-a", "urgent", 1, 90)
	b.submit("team-b", "b1", 1, 50)
	b.submit("team-b", "b2", 1, 50)
	for most, want := range map[int]struct {
		ids  []string
		more map[string]int64
	}{
		7: {[]string{"a1", "a2", "a3", "a4", "urgent", "b1", "b2"}, nil},
		5: {[]string{"a1", "a2", "urgent", "b1", "b2"}, map[string]int64{"team-a": 5}},
		1: {[]string{"urgent", "b1"}, map[string]int64{"team-a": 5, "team-b": 2}},
	} {
		w, err := b.Waiting(b.ctx, most)
		b.ok(err)
		var ids []string
		for _, r := range w.Requests {
			ids = append(ids, r.ID)
		}
		equal(b, fmt.Sprintf("of at most %d", most), strings.Join(ids, " "), strings.Join(want.ids, " "))
		if !maps.Equal(w.More, want.more) {
			b.Fatalf("of at most %d more wait of %v, want %v", most, w.More, want.more)
		}
	}
}

func wholeModel(b *bundle) {
	s := submission("team-a", "x", 2, 1)
	s.Model.Engine, s.Model.Command = modelspec.EngineCustom, []string{"serve", "--port", "${PORT}"}
	s.Model.Env = map[string]string{"A": "1", "B": "<&>"}
	s.Model.HealthPath, s.Model.Replicas = "/health", modelspec.Replicas{Min: 2, Max: 3}
	r, err := b.Submit(b.ctx, s)
	b.ok(err)
	if got := b.get("team-a", "x"); !reflect.DeepEqual(got.Model, s.Model) || !reflect.DeepEqual(got, r) {
		b.Fatalf("stored %+v, submitted %+v", got, s)
	}
	equal(b, "need", r.Need(), 4)
}

func endedContext(b *bundle) {
	ended := endedContextOf(b)
	_, err := b.Submit(ended, submission("team-a", "x", 1, 1))
	b.is(err, budget.ErrUnavailable)
	_, err = b.Get(ended, budget.Ref{Tenant: "team-a", ID: "x"})
	b.is(err, budget.ErrUnavailable)
}

func endedContextOf(b *bundle) context.Context {
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	return ctx
}
