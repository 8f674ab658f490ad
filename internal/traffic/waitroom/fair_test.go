package waitroom

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"
)

// TestFullRoomIsShared: in a full room the tenant with the most gives way to
// one with less, a lower class to a higher one, and nobody to an equal.
func TestFullRoomIsShared(t *testing.T) {
	t.Parallel()
	r, p := setup()
	from := func(tenant string, class Class) guest {
		return guest{Tenant: tenant, Class: class, MaxWaiting: 3, Timeout: time.Minute}
	}
	first, second := enter(t, r, t.Context(), from("greedy", Default)), enter(t, r, t.Context(), from("greedy", Default))
	third := enter(t, r, t.Context(), from("greedy", Default))
	if _, err := r.Wait(t.Context(), "k", from("greedy", Default)); !errors.Is(err, ErrFull) {
		t.Errorf("a fourth of the same tenant: %v", err)
	}
	modest := make(chan outcome, 1)
	go func() {
		place, err := r.Wait(t.Context(), "k", from("modest", Default))
		modest <- outcome{place, err}
	}()
	if o := <-third; !errors.Is(o.err, ErrEvicted) {
		t.Errorf("the greedy tenant's last request: %+v", o)
	}
	if _, err := r.Wait(t.Context(), "k", from("modest", Default)); !errors.Is(err, ErrFull) {
		t.Errorf("a second one would leave the other with less: %v", err)
	}
	if _, err := r.Wait(t.Context(), "k", from("modest", Batch)); !errors.Is(err, ErrFull) {
		t.Errorf("a lower class: %v", err)
	}
	urgent := make(chan outcome, 1)
	go func() {
		place, err := r.Wait(t.Context(), "k", from("greedy", Interactive))
		urgent <- outcome{place, err}
	}()
	if o := <-second; !errors.Is(o.err, ErrEvicted) {
		t.Errorf("the longest tenant's last request: %+v", o)
	}
	p.add(3)
	r.Wake("k")
	for who, o := range map[string]<-chan outcome{"urgent": urgent, "modest": modest, "first": first} {
		if o := <-o; o.err != nil || (who == "urgent") != (o.place == 1) {
			t.Errorf("%s: %+v", who, o)
		}
	}
	if !r.Empty() || len(r.tenants) != 0 || r.bytes != 0 {
		t.Errorf("left behind: %d tenants, %d bytes", len(r.tenants), r.bytes)
	}
}

func TestBoundsOfAllKeys(t *testing.T) {
	t.Parallel()
	r, _ := setup(func(cfg *Config[string, struct{}, int]) {
		cfg.Bounds = Bounds{TenantRequests: 2, TenantBytes: 100, Bytes: 150}
	})
	ctx, cancel := context.WithCancel(t.Context())
	wait := func(k, tenant string, bytes int64) error {
		_, err := r.Wait(ctx, k, guest{Tenant: tenant, Bytes: bytes, MaxWaiting: 10, Timeout: time.Minute})
		return err
	}
	done := make(chan error, 3)
	go func() { done <- wait("k", "a", 40) }()
	go func() { done <- wait("other", "a", 40) }()
	go func() { done <- wait("k", "b", 60) }()
	for r.total.Load() < 3 || r.Waiting("k")+r.Waiting("other") < 3 {
		runtime.Gosched()
	}
	if err := wait("third", "a", 1); !errors.Is(err, ErrTenantFull) {
		t.Errorf("a third request of one tenant: %v", err)
	}
	if err := wait("third", "b", 50); !errors.Is(err, ErrTenantFull) {
		t.Errorf("more bytes than one tenant may hold: %v", err)
	}
	if err := wait("third", "c", 11); !errors.Is(err, ErrMemory) {
		t.Errorf("more bytes than all may hold: %v", err)
	}
	cancel()
	for range 3 {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if !r.Empty() || r.bytes != 0 || len(r.tenants) != 0 {
		t.Error("who left still holds something")
	}
}

func TestClosedRoom(t *testing.T) {
	t.Parallel()
	r, p := setup()
	waiting := enter(t, r, t.Context(), patient)
	stopping := errors.New("stopping")
	r.Close(stopping)
	if o := <-waiting; !errors.Is(o.err, stopping) {
		t.Errorf("%+v", o)
	}
	p.add(1)
	if _, err := r.Wait(t.Context(), "k", patient); !errors.Is(err, stopping) {
		t.Errorf("after the end: %v", err)
	}
}

// TestChoosyRequestHoldsUpNobody: it is stepped over and keeps its place.
func TestChoosyRequestHoldsUpNobody(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	free := map[string]int{}
	r := New(Config[string, string, string]{Take: func(_, wanted string, _ bool) (string, bool) {
		mu.Lock()
		defer mu.Unlock()
		for kind, n := range free {
			if n > 0 && (wanted == "" || wanted == kind) {
				free[kind]--
				return kind, true
			}
		}
		return "", false
	}})
	got := make(chan string, 2)
	for i, wanted := range []string{"blue", ""} {
		go func() {
			place, err := r.Wait(t.Context(), "k", Guest[string]{Need: wanted, Choosy: wanted != "", MaxWaiting: 9, Timeout: time.Minute})
			if err != nil {
				t.Error(err)
			}
			got <- wanted + "<" + place
		}()
		for r.Waiting("k") != i+1 {
			runtime.Gosched()
		}
	}
	give := func(kind string) string {
		mu.Lock()
		free[kind]++
		mu.Unlock()
		r.Wake("k")
		return <-got
	}
	if g := give("red"); g != "<red" {
		t.Errorf("a red place went to %q", g)
	}
	if g := give("blue"); g != "blue<blue" {
		t.Errorf("a blue place went to %q", g)
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	r, p := setup()
	seen := make(chan Outlook, 100)
	g := patient
	g.ProgressFirst, g.ProgressEvery = time.Millisecond, time.Millisecond
	g.Progress = func(o Outlook) error { seen <- o; return nil }
	first := enter(t, r, t.Context(), patient)
	second := enter(t, r, t.Context(), g)
	if o := <-seen; o.Position != 2 {
		t.Errorf("%+v", o)
	}
	p.add(1)
	r.Wake("k")
	<-first
	for o := range seen {
		if o.Position == 1 {
			break
		}
	}
	p.add(1)
	r.Wake("k")
	<-second
	left := errors.New("the caller cannot be written to")
	g.Progress = func(Outlook) error { return left }
	if _, err := r.Wait(t.Context(), "k", g); !errors.Is(err, left) || !r.Empty() {
		t.Error(err)
	}
}

// TestStartsAreLearnt: after the first start the estimate is within 30 % of
// the next one, and a model that slept is timed from its wake.
func TestStartsAreLearnt(t *testing.T) {
	t.Parallel()
	s := NewStarts[string]()
	if _, known := s.Remaining("m", epoch); known {
		t.Fatal("an estimate out of nothing")
	}
	at := epoch
	s.Begin("m", at)
	s.Begin("m", at.Add(5*time.Second)) // it is starting already
	s.Ready("m", at.Add(40*time.Second))
	at = at.Add(time.Hour)
	s.Begin("m", at.Add(-30*time.Minute)) // it went to sleep
	s.Restart("m", at)                    // and was woken
	const next = 44 * time.Second
	if d, known := s.Remaining("m", at); !known || d < next*7/10 || d > next*13/10 {
		t.Errorf("estimate %s for a start of %s", d, next)
	}
	if d, _ := s.Remaining("m", at.Add(30*time.Second)); d != 10*time.Second {
		t.Errorf("after 30 s %s remain", d)
	}
	if d, _ := s.Remaining("m", at.Add(time.Minute)); d != 4*time.Second {
		t.Errorf("overdue: %s", d)
	}
	s.Ready("m", at.Add(next))
	s.Keep(func(k string) bool { return k != "m" })
	if _, known := s.Remaining("m", at); known {
		t.Error("a model that is gone is remembered")
	}
}

func TestClasses(t *testing.T) {
	t.Parallel()
	for _, c := range []Class{Batch, Default, Interactive} {
		if got, err := ParseClass(c.String()); got != c || err != nil {
			t.Errorf("%s: %v, %v", c, got, err)
		}
	}
	if _, err := ParseClass("urgent"); err == nil {
		t.Error("urgent is no class")
	}
}

// BenchmarkRoom is the same as BenchmarkDispatch with locks, channels and
// goroutines: 1000 tenants with a request each in turn.
func BenchmarkRoom(b *testing.B) {
	r, p := setup()
	b.ReportAllocs()
	var all sync.WaitGroup
	names := make([]string, 1000)
	for i := range names {
		names[i] = string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676))
	}
	work := make(chan string, 1024)
	for range 2000 {
		all.Go(func() {
			for tenant := range work {
				_, _ = r.Wait(context.Background(), "k", guest{Tenant: tenant, Tokens: 500, MaxWaiting: 5000, Timeout: time.Minute})
			}
		})
	}
	i := 0
	for b.Loop() {
		work <- names[i%1000]
		i++
		p.add(1)
		if i%64 == 0 {
			r.Wake("k")
		}
	}
	r.Wake("k")
	close(work)
	r.Wake("k")
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for {
		select {
		case <-done:
			return
		default:
			r.Wake("k")
			runtime.Gosched()
		}
	}
}
