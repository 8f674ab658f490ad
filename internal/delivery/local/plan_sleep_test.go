package local

import (
	"reflect"
	"testing"
	"time"

	"modeldock.io/internal/delivery"
	"modeldock.io/internal/modelspec"
	"modeldock.io/internal/placement"
)

// sleepy is an object of which n replicas may sleep.
func sleepy(name string, mib int64, wanted, n int, replicas ...ReplicaView) ObjectView {
	o := view(name, mib, wanted, replicas...)
	o.Asleep, o.HostMiB = n, mib
	return o
}

// able is a replica that serves and can be put to sleep.
func able(index int, card string, mib int64) ReplicaView {
	r := runs(index, card, mib)
	r.CanSleep, r.Bound = true, []string{card}
	return r
}

// slept is one that sleeps and left some memory on its card.
func slept(index int, card string, left int64, at time.Duration) ReplicaView {
	r := able(index, card, left)
	r.Ready, r.Sleep, r.SleptAt = false, Asleep, noon.Add(at)
	if left == 0 {
		r.Cards = nil
	}
	return r
}

func TestPlanOfSleep(t *testing.T) {
	t.Parallel()
	as := func(r ReplicaView, s Sleep) ReplicaView { r.Sleep, r.Ready = s, false; return r }
	old := func(r ReplicaView) ReplicaView { r.Process = "old"; return r }
	deleted := func(o ObjectView) ObjectView { o.Deleting, o.Wanted = true, 0; return o }
	batch := func(o ObjectView) ObjectView { o.Request.Workload = modelspec.WorkloadBatch; return o }
	of := func(tenant string, o ObjectView) ObjectView { o.Tenant = tenant; return o }
	ending := func(r ReplicaView) ReplicaView { r.Stopping = true; return r }
	act := func(v Verb, o string, i int) Action { return Action{Verb: v, Object: o, Index: i} }
	hold := func(o string, i int) Action {
		return Action{Verb: HoldReplica, Object: o, Index: i, Reason: delivery.NoFragmentFits}
	}
	start := func(o string, i int, card string, free int64) Action {
		return Action{Verb: StartReplica, Object: o, Index: i, Cards: []placement.Chosen{{UUID: card, FreeMiB: free}}}
	}
	for name, c := range map[string]struct {
		host    int64 // below 0: so much, and the machine is short of memory
		objects []ObjectView
		want    []Action
	}{
		"what is not wanted sleeps":  {9000, []ObjectView{sleepy("a", 6000, 0, 1, able(0, "c0", 6000))}, []Action{act(SleepReplica, "a", 0)}},
		"as many as may":             {99000, []ObjectView{sleepy("a", 1000, 0, 1, able(0, "c0", 1000), able(1, "c1", 1000))}, []Action{act(SleepReplica, "a", 0), act(StopReplica, "a", 1)}},
		"beside those that do":       {99000, []ObjectView{sleepy("a", 1000, 0, 2, slept(0, "c0", 0, 0), as(able(1, "c0", 1000), Dozing), able(2, "c1", 1000))}, []Action{act(StopReplica, "a", 2)}},
		"as far as memory goes":      {9000, []ObjectView{sleepy("a", 6000, 0, 2, able(0, "c0", 6000), able(1, "c1", 6000))}, []Action{act(SleepReplica, "a", 0), act(StopReplica, "a", 1)}},
		"memory is shared by all":    {9000, []ObjectView{sleepy("a", 6000, 0, 1, slept(0, "c0", 0, 0)), sleepy("b", 6000, 0, 1, able(0, "c1", 6000))}, []Action{act(StopReplica, "b", 0)}},
		"all of it for who is alone": {9000, []ObjectView{sleepy("a", 3000, 0, 2, slept(0, "c0", 0, 0), slept(1, "c0", 0, 0)), sleepy("b", 3000, 0, 1, able(0, "c1", 3000))}, []Action{act(SleepReplica, "b", 0)}},
		"a part for everybody": {9000, []ObjectView{of("x", sleepy("a", 3000, 0, 3, slept(0, "c0", 0, time.Second), slept(1, "c0", 0, 0), slept(2, "c0", 0, time.Second))), of("y", sleepy("b", 3000, 0, 1, able(0, "c1", 3000)))},
			[]Action{act(StopReplica, "a", 1)}},
		"which it waits for": {9000, []ObjectView{of("x", sleepy("a", 3000, 0, 3, slept(0, "c0", 0, 0), ending(slept(1, "c0", 0, 0)), slept(2, "c0", 0, 0))), of("y", sleepy("b", 3000, 0, 1, able(0, "c1", 3000)))}, nil},
		"and nobody else gets": {9000, []ObjectView{
			of("x", sleepy("a", 3000, 0, 3, slept(0, "c0", 0, 0), ending(slept(1, "c0", 0, 0)))), of("y", sleepy("b", 5000, 0, 1, able(0, "c1", 5000))), of("z", sleepy("c", 4000, 0, 1, able(0, "c0", 4000))),
		}, []Action{act(StopReplica, "c", 0)}},
		"and no more than a part": {9000, []ObjectView{of("x", sleepy("a", 3000, 0, 3, slept(0, "c0", 0, 0), slept(1, "c0", 0, 0))), of("y", sleepy("b", 3000, 0, 3, slept(0, "c1", 0, 0), able(1, "c1", 3000)))},
			[]Action{act(StopReplica, "b", 1)}},
		"never beyond it":            {9000, []ObjectView{of("x", sleepy("a", 3000, 0, 3, slept(0, "c0", 0, 0))), of("y", sleepy("b", 3000, 0, 3, slept(0, "c1", 0, 0), slept(1, "c1", 0, 0), able(2, "c1", 3000)))}, []Action{act(StopReplica, "b", 2)}},
		"nor for what is of no use":  {9000, []ObjectView{of("x", sleepy("a", 3000, 0, 3, slept(0, "c0", 0, 0))), of("y", sleepy("c", 3000, 0, 1, slept(0, "c0", 0, 0))), of("z", sleepy("b", 6000, 0, 1, able(0, "c1", 6000)))}, []Action{act(StopReplica, "b", 0)}},
		"nor of whom is to be woken": {9000, []ObjectView{of("x", sleepy("a", 9000, 1, 1, slept(0, "c0", 0, 0))), of("y", sleepy("b", 3000, 0, 1, able(0, "c0", 3000)))}, []Action{start("a", 1, "c1", 10000), act(StopReplica, "b", 0)}},
		"a waking one has its own":   {9000, []ObjectView{sleepy("a", 6000, 1, 1, as(able(0, "c0", 6000), Waking)), sleepy("b", 6000, 0, 1, able(0, "c1", 6000))}, []Action{act(StopReplica, "b", 0)}},
		"only engines that can":      {9000, []ObjectView{sleepy("a", 6000, 0, 1, runs(0, "c0", 6000))}, []Action{act(StopReplica, "a", 0)}},
		"not while it loads":         {9000, []ObjectView{sleepy("a", 6000, 0, 1, as(able(0, "c0", 6000), Awake))}, []Action{act(StopReplica, "a", 0)}},
		"not what is outdated":       {9000, []ObjectView{sleepy("a", 6000, 0, 1, old(able(0, "c0", 6000)))}, []Action{act(StopReplica, "a", 0)}},
		"not where none may":         {0, []ObjectView{sleepy("a", 6000, 0, 1, able(0, "c0", 6000))}, []Action{act(StopReplica, "a", 0)}},
		"not at the end":             {9000, []ObjectView{deleted(sleepy("a", 6000, 0, 2, able(0, "c0", 6000), slept(1, "c0", 0, 0), as(able(2, "c1", 6000), Dozing)))}, []Action{act(StopReplica, "a", 0), act(StopReplica, "a", 2), act(StopReplica, "a", 1)}},
		"the end waits for it":       {9000, []ObjectView{deleted(sleepy("a", 6000, 0, 1, ending(slept(1, "c0", 0, 0))))}, nil},
		"it stays asleep":            {9000, []ObjectView{sleepy("a", 6000, 0, 1, slept(0, "c0", 0, 0))}, nil},
		"it is woken":                {9000, []ObjectView{sleepy("a", 6000, 1, 1, slept(0, "c0", 0, 0))}, []Action{act(WakeReplica, "a", 0)}},
		"who slept last is woken":    {99000, []ObjectView{sleepy("a", 6000, 1, 2, slept(0, "c0", 0, 0), slept(1, "c1", 0, time.Second))}, []Action{act(WakeReplica, "a", 1)}},
		"woken before one starts":    {99000, []ObjectView{sleepy("a", 6000, 2, 1, slept(1, "c0", 0, 0))}, []Action{act(WakeReplica, "a", 1), start("a", 0, "c1", 10000)}},
		"before one is tried again":  {99000, []ObjectView{sleepy("a", 6000, 1, 1, ReplicaView{Index: 0, RetryAt: noon}, slept(1, "c0", 0, 0))}, []Action{act(WakeReplica, "a", 1), act(ForgetReplica, "a", 0)}},
		"what it left is its own":    {99000, []ObjectView{sleepy("a", 10000, 1, 1, slept(0, "c0", 500, 0))}, []Action{act(WakeReplica, "a", 0)}},
		"its card is full":           {99000, []ObjectView{view("b", 9000, 1, runs(0, "c0", 9000)), sleepy("c", 6000, 1, 1, slept(0, "c0", 0, 0))}, []Action{start("c", 1, "c1", 10000)}},
		"all are full": {99000, []ObjectView{view("b", 9000, 2, runs(0, "c0", 9000), runs(1, "c1", 9000)), sleepy("c", 6000, 1, 1, slept(0, "c0", 0, 0))},
			[]Action{hold("c", 1)}},
		"its card is given once":   {99000, []ObjectView{sleepy("a", 6000, 1, 1, slept(0, "c0", 0, 0)), sleepy("b", 6000, 1, 1, slept(0, "c0", 0, 0))}, []Action{act(WakeReplica, "a", 0), start("b", 1, "c1", 10000)}},
		"an ending one is paid":    {99000, []ObjectView{sleepy("a", 1000, 1, 1, ending(able(0, "c0", 1000)), slept(1, "c0", 0, 0))}, nil},
		"one that dozes is waited": {99000, []ObjectView{sleepy("a", 1000, 1, 1, as(able(0, "c0", 1000), Dozing))}, nil},
		"outdated in its sleep":    {99000, []ObjectView{sleepy("a", 1000, 1, 1, old(slept(0, "c0", 0, 0)))}, []Action{act(StopReplica, "a", 0), start("a", 1, "c0", 10000)}},
		"fewer may sleep now":      {99000, []ObjectView{sleepy("a", 1000, 0, 1, slept(0, "c0", 0, 0), slept(1, "c0", 0, time.Second))}, []Action{act(StopReplica, "a", 0)}},
		"what they left makes room": {99000, []ObjectView{
			sleepy("a", 5000, 0, 1, slept(0, "c0", 600, 0)), sleepy("b", 5000, 0, 1, slept(0, "c0", 600, time.Second)),
			batch(sleepy("c", 5000, 0, 1, slept(0, "c0", 600, time.Minute))), view("d", 9000, 2, runs(0, "c1", 9000)),
		}, []Action{hold("d", 1), act(StopReplica, "c", 0), act(StopReplica, "a", 0)}},
		"as much as ends anyway": {99000, []ObjectView{
			sleepy("a", 5000, 0, 1, slept(0, "c0", 600, 0)), sleepy("b", 5000, 0, 1, ending(slept(0, "c0", 600, 0))), view("d", 9400, 2, runs(0, "c1", 9400)),
		}, []Action{hold("d", 1)}},
		"short of memory": {-99000, []ObjectView{
			sleepy("a", 5000, 0, 1, slept(0, "c0", 0, 0)), batch(sleepy("b", 5000, 0, 1, slept(0, "c0", 0, time.Second))), sleepy("c", 5000, 0, 1, able(0, "c1", 5000)),
		}, []Action{act(StopReplica, "c", 0), act(StopReplica, "b", 0)}},
		"one after the other": {-99000, []ObjectView{sleepy("a", 5000, 0, 2, ending(slept(0, "c0", 0, 0)), slept(1, "c0", 0, 0))}, nil},
		"not who is woken":    {-99000, []ObjectView{sleepy("a", 5000, 1, 2, slept(0, "c0", 0, 0))}, []Action{act(WakeReplica, "a", 0)}},
		"not in vain":         {99000, []ObjectView{sleepy("a", 5000, 0, 1, slept(0, "c0", 600, 0)), view("d", 9000, 3, runs(0, "c0", 9000), runs(1, "c1", 9000))}, []Action{hold("d", 2)}},
	} {
		w := world(c.objects...)
		w.AsleepMiB, w.HostShort = max(c.host, -c.host), c.host < 0
		got, err := Plan(w)
		for i := range got { // what they tell people is seen elsewhere
			got[i].Message = ""
			if got[i].Verb != HoldReplica {
				got[i].Reason = ""
			}
		}
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n got %+v (%v)\nwant %+v", name, got, err, c.want)
		}
	}
}

// A replica that may sleep and never can is told why when it is stopped.
func TestWhyOneIsStoppedAndNotAsleep(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int64]string{
		0:    "it is not wanted any more; nothing sleeps on this machine (--asleep-memory 0)",
		5000: "it is not wanted any more; it cannot sleep, because it would take 6000 MiB of host memory, and all that sleep may take 5000 (--asleep-memory)",
		7000: "it is not wanted any more; it cannot sleep, because it would take 6000 MiB of host memory: of the 7000 that all who sleep may take (--asleep-memory), its tenant has 5000, and no other tenant has more than that with this replica",
	} {
		asleep := sleepy("b", 5000, 0, 1, slept(0, "c1", 0, 0))
		asleep.Asleep, asleep.CreatedAt = min(1, int(limit/7000)), noon.Add(time.Hour)
		w := world(sleepy("a", 6000, 0, 1, able(0, "c0", 6000)), asleep)
		w.AsleepMiB = limit
		if got, err := Plan(w); err != nil || len(got) == 0 || got[0].Message != want {
			t.Errorf("with %d MiB: %+v (%v), want %q", limit, got, err, want)
		}
	}
}

// One that is ended in its sleep holds no card, and is not said to.
func TestWhoEndsInItsSleepHoldsNothing(t *testing.T) {
	t.Parallel()
	st := delivery.Status{Wanted: 1, Ready: 1, Replicas: []delivery.Replica{
		{UID: "a", Phase: delivery.PhaseReady, Cards: []delivery.Card{{UUID: "c0"}}}, {UID: "b", Phase: delivery.PhaseTerminating},
	}}
	if _, message := reasonOf(st); message != "1 of 1 replicas are ready" {
		t.Errorf("it says %q", message)
	}
	st.Replicas[1].Cards = []delivery.Card{{UUID: "c0"}}
	if _, message := reasonOf(st); message != "1 of 1 replicas are ready; 1 more are ending and hold their cards and slots until then" {
		t.Errorf("it says %q", message)
	}
}
