package local

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"modeldock.io/internal/delivery"
	"modeldock.io/internal/placement"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func world(objects ...ObjectView) World {
	return World{Now: noon, Objects: objects, Node: placement.Node{Name: "n", Cards: []placement.Card{
		{UUID: "c0", TotalMiB: 10000, Healthy: true}, {UUID: "c1", TotalMiB: 10000, Healthy: true},
	}}}
}

func view(name string, mib int64, wanted int, replicas ...ReplicaView) ObjectView {
	return ObjectView{Name: name, CreatedAt: noon, Wanted: wanted, Process: "p", Request: placement.Request{MiB: mib, Cards: 1}, Replicas: replicas}
}

func runs(index int, card string, mib int64) ReplicaView {
	return ReplicaView{Index: index, Running: true, Ready: true, Process: "p", Cards: []placement.Allocation{{Owner: "x", Card: card, MiB: mib}}}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	stopping := runs(0, "c0", 6000)
	stopping.Stopping, stopping.Ready = true, false
	outdated := func(i int, card string) ReplicaView { r := runs(i, card, 6000); r.Process = "old"; return r }
	loading := runs(1, "c1", 6000)
	loading.Ready = false
	since := func(r ReplicaView, d time.Duration) ReplicaView { r.Since = noon.Add(d); return r }
	busy := func(r ReplicaView, n int) ReplicaView { r.InFlight = n; return r }
	ending := runs(1, "c1", 6000)
	ending.Stopping, ending.Ready = true, false
	unready := runs(0, "c0", 6000)
	unready.Ready = false
	later := ReplicaView{Index: 0, RetryAt: noon.Add(time.Second)}
	now := ReplicaView{Index: 0, RetryAt: noon}
	deleted := func(r ...ReplicaView) ObjectView { o := view("a", 6000, 0, r...); o.Deleting = true; return o }
	start := func(o string, i int, card string, free int64) Action {
		return Action{Verb: StartReplica, Object: o, Index: i, Cards: []placement.Chosen{{UUID: card, FreeMiB: free}}}
	}
	stop := func(i int, why string) Action {
		return Action{Verb: StopReplica, Object: "a", Index: i, Reason: delivery.Draining, Message: why}
	}
	hold := func(o string, why string) Action {
		return Action{Verb: HoldReplica, Object: o, Reason: delivery.NoFragmentFits, Message: why}
	}
	for name, c := range map[string]struct {
		world World
		want  []Action
	}{
		"nothing to do":            {world(view("a", 6000, 1, runs(0, "c0", 6000))), nil},
		"start":                    {world(view("a", 6000, 2)), []Action{start("a", 0, "c0", 10000), start("a", 1, "c1", 10000)}},
		"memory is given out once": {world(view("a", 6000, 1), view("b", 6000, 2)), []Action{start("a", 0, "c0", 10000), start("b", 0, "c1", 10000), {Verb: HoldReplica, Object: "b", Index: 1, Reason: delivery.NoFragmentFits, Message: "largest fragment 4000 MiB < 6000 MiB on node n (2 cards, 8000 MiB free in total)"}}},
		"a stopping process still holds its card": {
			world(view("a", 6000, 0, stopping), view("b", 6000, 1, runs(0, "c1", 6000)), view("c", 6000, 1)),
			[]Action{hold("c", "largest fragment 4000 MiB < 6000 MiB on node n (2 cards, 8000 MiB free in total)")},
		},
		"not before its time":        {world(view("a", 6000, 1, later)), nil},
		"when its time has come":     {world(view("a", 6000, 1, now)), []Action{start("a", 0, "c0", 10000)}},
		"scale down":                 {world(view("a", 6000, 1, runs(0, "c0", 6000), runs(1, "c1", 6000))), []Action{stop(1, "it is not wanted any more")}},
		"the newest goes":            {world(view("a", 6000, 1, since(runs(0, "c0", 6000), time.Hour), since(runs(1, "c1", 6000), time.Minute))), []Action{stop(0, "it is not wanted any more")}},
		"the least loaded goes":      {world(view("a", 6000, 1, busy(since(runs(0, "c0", 6000), time.Hour), 2), busy(since(runs(1, "c1", 6000), time.Minute), 1))), []Action{stop(1, "it is not wanted any more")}},
		"who does not serve goes":    {world(view("a", 6000, 1, unready, since(runs(1, "c1", 6000), time.Hour))), []Action{stop(0, "it is not wanted any more")}},
		"the outdated one goes":      {world(view("a", 6000, 1, outdated(0, "c0"), since(runs(1, "c1", 6000), time.Hour))), []Action{stop(0, "it is not wanted any more")}},
		"what failed goes first":     {world(view("a", 6000, 1, later, runs(1, "c1", 6000))), []Action{{Verb: ForgetReplica, Object: "a"}}},
		"one of two stays at one":    {world(view("a", 6000, 1, runs(1, "c1", 6000))), nil},
		"and gets its neighbour":     {world(view("a", 6000, 2, runs(1, "c1", 6000))), []Action{start("a", 0, "c0", 10000)}},
		"an ending one is paid for":  {world(view("a", 1000, 2, runs(0, "c0", 6000), ending)), nil},
		"as many as are paid for":    {world(view("a", 1000, 3, runs(0, "c0", 6000), ending)), []Action{start("a", 2, "c0", 4000)}},
		"delete stops":               {world(deleted(runs(0, "c0", 6000))), []Action{stop(0, "it is not wanted any more")}},
		"delete waits for the last":  {world(deleted(stopping)), nil},
		"delete ends":                {world(deleted()), []Action{{Verb: RemoveObject, Object: "a"}}},
		"delete forgets what failed": {world(deleted(later)), []Action{{Verb: ForgetReplica, Object: "a"}, {Verb: RemoveObject, Object: "a"}}},
		"changed ones one at a time": {world(view("a", 6000, 2, outdated(0, "c0"), outdated(1, "c1"))), []Action{stop(1, "its description changed")}},
		"not while another loads":    {world(view("a", 6000, 2, outdated(0, "c0"), loading)), nil},
	} {
		got, err := Plan(c.world)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n got %+v (%v)\nwant %+v", name, got, err, c.want)
		}
	}
}

// What is wrong with one object holds that object only, and costs nothing by
// its size: others start, and it ends when it is deleted.
func TestPlanHoldsWhatCannotBePlaced(t *testing.T) {
	t.Parallel()
	changed := func(o ObjectView, change func(*ObjectView)) ObjectView { change(&o); return o }
	none := func(o *ObjectView) { o.Request.Cards = 0 }
	started := Action{Verb: StartReplica, Object: "b", Cards: []placement.Chosen{{UUID: "c0", FreeMiB: 10000}}}
	beside := Action{Verb: StartReplica, Object: "b", Cards: []placement.Chosen{{UUID: "c1", FreeMiB: 9500}}}
	hold := func(i int, why string) Action {
		return Action{Verb: HoldReplica, Object: "a", Index: i, Reason: delivery.Unplaceable, Message: why + ": release the request and submit it again"}
	}
	const noCard = "a request of 6000 MiB on each of 0 cards cannot be placed: memory must be from 1 to 1099511627776 MiB, and cards from 1 to 64"
	asleep := runs(1, "c1", 500)
	asleep.Sleep, asleep.Ready, asleep.Bound, asleep.CanSleep = Asleep, false, []string{"c1"}, true
	for name, c := range map[string]struct {
		object ObjectView
		want   []Action
	}{
		"no card":                   {changed(view("a", 6000, 2), none), []Action{hold(0, noCard), started}},
		"no memory":                 {view("a", 0, 1), []Action{hold(0, "a request of 0 MiB on each of 1 cards cannot be placed: memory must be from 1 to 1099511627776 MiB, and cards from 1 to 64"), started}},
		"replicas without end":      {view("a", 6000, 1<<62), []Action{hold(0, "4611686018427387904 replicas cannot be placed; at most 1000 can"), started}},
		"held before":               {changed(view("a", 6000, 1, ReplicaView{}), none), []Action{hold(0, noCard), started}},
		"one runs of before":        {changed(view("a", 6000, 2, runs(0, "c1", 9000)), none), []Action{hold(1, noCard), started}},
		"all run of before":         {changed(view("a", 6000, 1, runs(0, "c1", 9000)), none), []Action{started}},
		"one sleeps and is kept so": {changed(view("a", 6000, 1, asleep), func(o *ObjectView) { none(o); o.Asleep = 1 }), []Action{hold(0, noCard), beside}},
		"deleted": {
			changed(view("a", 6000, 0, ReplicaView{}), func(o *ObjectView) { none(o); o.Deleting = true }),
			[]Action{{Verb: ForgetReplica, Object: "a"}, {Verb: RemoveObject, Object: "a"}, started},
		},
	} {
		w := world(c.object, view("b", 6000, 1))
		w.AsleepMiB = 20000
		got, err := Plan(w)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n got %+v (%v)\nwant %+v", name, got, err, c.want)
		}
	}
}

// Figures of cards that make no sense keep all from starting, and nothing from
// ending.
func TestPlanWithoutKnowingTheCards(t *testing.T) {
	t.Parallel()
	w := world(view("a", 6000, 1), view("b", 6000, 0, runs(0, "c0", 6000)), view("c", 6000, 1))
	w.Node.Cards[1].UUID = "c0"
	hold := func(o string) Action {
		return Action{Verb: HoldReplica, Object: o, Reason: delivery.Loading, Message: cardsUnclear}
	}
	want := []Action{hold("a"), {Verb: StopReplica, Object: "b", Reason: delivery.Draining, Message: "it is not wanted any more"}, hold("c")}
	got, err := Plan(w)
	if err == nil || !strings.Contains(err.Error(), "card c0 is listed twice") || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v (%v)\nwant %+v and an error that names the card", got, err, want)
	}
	w.Objects = w.Objects[1:2]
	if _, err := Plan(w); err != nil {
		t.Errorf("nobody is to start, and: %v", err)
	}
}

func TestTheOlderObjectComesFirst(t *testing.T) {
	t.Parallel()
	young, old := view("a", 9000, 1), view("b", 9000, 2)
	old.CreatedAt = noon.Add(-time.Hour)
	got, err := Plan(world(young, old))
	if err != nil || len(got) != 3 || got[0].Object != "b" || got[1].Object != "b" || got[2].Verb != HoldReplica {
		t.Fatalf("%+v %v", got, err)
	}
}

// Whatever happens in whatever order, no card is ever given out twice, and a
// world at rest gets no orders.
func TestPlanNeverOverbooks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := world()
		w.AsleepMiB = rapid.SampledFrom([]int64{0, 5000, 20000}).Draw(t, "host memory")
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			happen(t, &w)
			actions, err := Plan(w)
			if err != nil {
				t.Fatal(err)
			}
			checkPaid(t, w, actions)
			obey(&w, actions)
			checkCards(t, w)
			if m := newHostMemory(w.AsleepMiB, w.Objects); m.free < 0 {
				t.Fatalf("sleeping engines take %d MiB of host memory more than %d", -m.free, w.AsleepMiB)
			}
			again, err := Plan(w)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range again {
				if a.Verb != HoldReplica && a.Verb != StopReplica {
					t.Fatalf("the same world asks for %+v again", a)
				}
			}
		}
	})
}

// happen changes the world from outside.
func happen(t *rapid.T, w *World) {
	if len(w.Objects) == 0 || rapid.IntRange(0, 3).Draw(t, "create") == 0 {
		name := rapid.StringMatching(`[a-z]{8}`).Draw(t, "name")
		o := view(name, rapid.Int64Range(1000, 9000).Draw(t, "mib"), rapid.IntRange(1, 3).Draw(t, "wanted"))
		o.Tenant = rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "tenant")
		o.HostMiB, o.Asleep = o.Request.MiB, rapid.IntRange(0, 2).Draw(t, "asleep")
		w.Objects = append(w.Objects, o)
		return
	}
	o := &w.Objects[rapid.IntRange(0, len(w.Objects)-1).Draw(t, "object")]
	switch rapid.IntRange(0, 5).Draw(t, "what") {
	case 0:
		o.Deleting, o.Wanted = true, 0
	case 1:
		if !o.Deleting {
			o.Wanted = rapid.IntRange(0, 3).Draw(t, "scale")
		}
	case 2:
		o.Process = "p" + rapid.StringMatching(`[a-c]`).Draw(t, "process")
	case 3: // every process that was told to stop ends, and one more crashes
		for i := range o.Replicas {
			if r := &o.Replicas[i]; r.Stopping || i == 0 {
				*r = ReplicaView{Index: r.Index}
			}
		}
	case 4: // engines fall asleep and wake up
		for i := range o.Replicas {
			switch r := &o.Replicas[i]; {
			case r.Sleep == Dozing:
				r.Sleep, r.SleptAt = Asleep, noon.Add(time.Duration(len(w.Objects))*time.Second)
				r.Cards = []placement.Allocation{{Owner: "x", Card: r.Bound[0], MiB: 500}}
			case r.Sleep == Waking && !r.Stopping:
				r.Sleep, r.Ready = Awake, true
			}
		}
	case 5:
		o.Asleep = rapid.IntRange(0, 2).Draw(t, "asleep")
	}
}

func obey(w *World, actions []Action) {
	for _, a := range actions {
		for i := range w.Objects {
			o := &w.Objects[i]
			if o.Name != a.Object {
				continue
			}
			o.Replicas = obeyed(*o, a)
			if a.Verb == RemoveObject {
				w.Objects = append(w.Objects[:i], w.Objects[i+1:]...)
			}
			break
		}
	}
}

func obeyed(o ObjectView, a Action) []ReplicaView {
	var out []ReplicaView
	for _, r := range o.Replicas {
		switch {
		case r.Index != a.Index || a.Verb == HoldReplica || a.Verb == RemoveObject:
			out = append(out, r)
		case a.Verb == StopReplica:
			r.Stopping, r.Ready = true, false
			out = append(out, r)
		case a.Verb == SleepReplica:
			r.Sleep, r.Ready = Dozing, false
			out = append(out, r)
		case a.Verb == WakeReplica:
			r.Sleep, r.Cards = Waking, []placement.Allocation{{Owner: "x", Card: r.Bound[0], MiB: o.Request.MiB}}
			out = append(out, r)
		}
	}
	if a.Verb == StartReplica {
		out = append(out, ReplicaView{Index: a.Index, Running: true, Ready: true, Process: o.Process, CanSleep: true, Bound: []string{a.Cards[0].UUID},
			Cards: []placement.Allocation{{Owner: "x", Card: a.Cards[0].UUID, MiB: o.Request.MiB}}})
	}
	return out
}

// checkPaid: nothing is started or woken while as many processes exist as are wanted,
// ending ones included.
func checkPaid(t *rapid.T, w World, actions []Action) {
	for _, o := range w.Objects {
		running := 0
		for _, r := range o.Replicas {
			if r.Running && r.Sleep != Asleep {
				running++
			}
		}
		for _, a := range actions {
			if a.Object == o.Name && (a.Verb == StartReplica || a.Verb == WakeReplica) {
				if running++; running > o.Wanted {
					t.Fatalf("%s: %d processes where %d are paid for", o.Name, running, o.Wanted)
				}
			}
		}
	}
}

func checkCards(t *rapid.T, w World) {
	used := map[string]int64{}
	for _, o := range w.Objects {
		for _, r := range o.Replicas {
			for _, c := range r.Cards {
				used[c.Card] += c.MiB
			}
		}
	}
	for card, mib := range used {
		if mib > 10000 {
			t.Fatalf("card %s holds %d of 10000 MiB", card, mib)
		}
	}
}
