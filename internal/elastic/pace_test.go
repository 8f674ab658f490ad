package elastic_test

import (
	"reflect"
	"testing"
	"time"

	"modeldock.io/internal/elastic"
	"modeldock.io/internal/modelspec"
)

// decideFor asks once a second whether a model of one replica with 10 requests
// at once each should grow, while there are so many requests.
func decideFor(t *testing.T, spec elastic.Spec, in elastic.Signals, seconds int) elastic.Decision {
	t.Helper()
	var d elastic.Decision
	for i := range seconds {
		d = elastic.Decide(spec, in, d.Next, elastic.Budget{}, noon.Add(time.Duration(i)*time.Second))
		in.Replicas = d.Replicas
	}
	return d
}

// TestPaced: where a start takes seconds, a burst of 10 s is followed up and
// down; where it takes a minute, the same burst orders one at most, and a
// minute of it all that it needs.
func TestPaced(t *testing.T) {
	t.Parallel()
	bundle, in := online(1, 30)
	if d := decideFor(t, bundle.Paced(5*time.Second), in, 6); d.Replicas < 4 {
		t.Errorf("starts of 5 s did not follow: %+v", d)
	}
	if d := decideFor(t, bundle.Paced(time.Minute), in, 5); d.Replicas > 2 {
		t.Errorf("starts of a minute chased a burst: %+v", d)
	}
	d := decideFor(t, bundle.Paced(time.Minute), in, 60)
	if d.Replicas < 4 {
		t.Errorf("starts of a minute did not grow for a lasting load: %+v", d)
	}
	none := 0.0
	in.Values[elastic.MetricDemand], in.Replicas = elastic.Reading{Total: &none}, d.Replicas
	later := elastic.Decide(bundle.Paced(time.Minute), in, d.Next, elastic.Budget{}, noon.Add(10*time.Minute))
	expect(t, "what a burst needed is kept", later, d.Replicas, elastic.ReasonDownWindow)
	for lead, idle := range map[time.Duration]time.Duration{time.Second: time.Minute, 2 * time.Minute: 30 * time.Minute, time.Minute: 15 * time.Minute, time.Hour: 30 * time.Minute} {
		if s := elastic.For(modelspec.ClassLLM, modelspec.WorkloadOnline, 8).Paced(lead); s.Idle != idle {
			t.Errorf("with starts of %s it sleeps after %s, want %s", lead, s.Idle, idle)
		}
	}
	if s := bundle.Paced(0); s.Smooth != 0 || s.Behavior.Down.Window != bundle.Behavior.Down.Window {
		t.Errorf("an unknown start-up changed the policy: %+v", s)
	}
}

// TestPacedFor: where the next replica is started and those that are given up
// sleep, growth is that of long starts and shrinking that of short ones; and the
// other way round. No more are given up at once than have a place to sleep, and
// none while one loads, which could not.
func TestPacedFor(t *testing.T) {
	t.Parallel()
	bundle, _ := online(1, 30)
	start, wake := bundle.Paced(time.Minute), bundle.Paced(3*time.Second)
	ladder := elastic.Ladder{Start: time.Minute, Wake: 3 * time.Second, Places: 3}
	full, loads, some := ladder, ladder, ladder
	full.Asleep, loads.Loading, some.Asleep = 3, 1, 1
	sleeps := func(n int) elastic.Spec {
		s := wake
		s.Behavior.Down.Policies = []elastic.Policy{{Value: n, Period: 15 * time.Second}}
		return s
	}
	for _, c := range []struct {
		what     string
		l        elastic.Ladder
		up, down elastic.Spec
	}{
		{"none sleeps yet", ladder, start, sleeps(3)},
		{"as many sleep as may", full, wake, start},
		{"one still loads", loads, start, start},
		{"one sleeps, and two more may", some, wake, sleeps(2)},
	} {
		got := bundle.PacedFor(c.l)
		if got.Smooth != c.up.Smooth || !reflect.DeepEqual(got.Behavior.Up, c.up.Behavior.Up) {
			t.Errorf("%s, growth: %+v, want %+v", c.what, got, c.up)
		}
		if got.Idle != c.down.Idle || !reflect.DeepEqual(got.Behavior.Down, c.down.Behavior.Down) {
			t.Errorf("%s, shrinking: %+v, want %+v", c.what, got, c.down)
		}
	}
	if s := bundle.PacedFor(elastic.Ladder{Wake: time.Second, Places: 1}); !reflect.DeepEqual(s, bundle) {
		t.Errorf("fitted to what is not known: %+v", s)
	}
}

// TestOffered: a backlog orders no replicas where the offered load is known,
// and a policy for it goes by the demand where it is not.
func TestOffered(t *testing.T) {
	t.Parallel()
	spec, in := online(1, 200)
	if d := elastic.Decide(spec, in, elastic.History{}, elastic.Budget{}, noon); d.Replicas == 1 {
		t.Errorf("the demand did not take the place of an unknown load: %+v", d)
	}
	offered := 5.0
	in.Values[elastic.MetricOffered] = elastic.Reading{Total: &offered}
	expect(t, "a backlog", elastic.Decide(spec, in, elastic.History{}, elastic.Budget{}, noon), 1, elastic.ReasonDesired)
}

// TestHistoryStaysShort: a window of 20 minutes asked every second is kept in
// as many proposals as there are counts.
func TestHistoryStaysShort(t *testing.T) {
	t.Parallel()
	spec, in := online(3, 15)
	spec.Behavior.Down.Window = 20 * time.Minute
	var d elastic.Decision
	for i := range 1200 {
		demand := float64(1 + i*7%40)
		in.Values[elastic.MetricDemand] = elastic.Reading{Total: &demand}
		d = elastic.Decide(spec, in, d.Next, elastic.Budget{}, noon.Add(time.Duration(i)*time.Second))
	}
	if n := len(d.Next.Proposals); n > 9 {
		t.Errorf("%d proposals are kept of 8 counts and the first", n)
	}
}
