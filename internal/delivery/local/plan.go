package local

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"modeldock.io/internal/delivery"
	"modeldock.io/internal/modelspec"
	"modeldock.io/internal/placement"
)

// World is what Plan decides by: a copy of everything at one moment.
type World struct {
	Now     time.Time
	Node    placement.Node
	Objects []ObjectView
	// AsleepMiB is the host memory that sleeping engines may take together.
	AsleepMiB int64
	// HostShort says that the machine has hardly any memory left for what runs.
	HostShort bool
}

// ObjectView is one object as Plan sees it.
type ObjectView struct {
	Name      string
	Tenant    string
	CreatedAt time.Time
	Deleting  bool
	Wanted    int    // replicas that should run
	Process   string // identity of the process description, see record.process
	Request   placement.Request
	Asleep    int   // replicas beyond the wanted ones that may stay loaded
	HostMiB   int64 // host memory that one of them takes
	Replicas  []ReplicaView
}

// ReplicaView is one replica that has a process or a past.
type ReplicaView struct {
	Index    int
	Running  bool // a process exists, in whatever phase
	Stopping bool
	Ready    bool
	Process  string
	Since    time.Time // when its process was placed
	InFlight int       // requests that run on it; only where some have to go
	Cards    []placement.Allocation
	RetryAt  time.Time // not started before

	CanSleep bool // its engine can be put to sleep
	Sleep    Sleep
	SleptAt  time.Time // when it fell asleep
	Bound    []string  // the cards that its process can use, whether it holds them or not
}

// Verb is what an action does.
type Verb string

// The verbs.
const (
	StartReplica  Verb = "start"  // on Cards
	HoldReplica   Verb = "hold"   // nothing can be started, because of Reason and Message
	StopReplica   Verb = "stop"   // withdraw, drain, stop
	SleepReplica  Verb = "sleep"  // withdraw, drain, put to sleep
	WakeReplica   Verb = "wake"   // it takes its cards again
	ForgetReplica Verb = "forget" // it does not run and is not wanted
	RemoveObject  Verb = "remove" // deleted, and its last process is gone
)

// Action is one step towards the desired state.
type Action struct {
	Verb    Verb
	Object  string
	Index   int
	Cards   []placement.Chosen
	Reason  delivery.Reason
	Message string
}

// Plan returns what has to be done now. It is pure: the same world always
// gives the same actions, and with nothing to do there is none but holds.
// Memory is given out in the order in which the objects were created. What is
// wrong with one object holds that object. An error is about the cards: nothing
// is started or woken then, and the actions are all the same to be done.
func Plan(w World) ([]Action, error) {
	objects := slices.Clone(w.Objects)
	slices.SortFunc(objects, func(a, b ObjectView) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.Name, b.Name))
	})
	p := planner{world: w, objects: objects, host: newHostMemory(w.AsleepMiB, objects), waiting: map[string]int{}}
	for _, o := range objects {
		p.object(o)
	}
	p.relieve()
	return p.actions, p.blind
}

type planner struct {
	world   World
	objects []ObjectView    // in order
	view    *placement.View // made for the first start, then kept up to date
	blind   error           // why nothing can be placed
	seen    *placement.Sizes
	host    hostMemory
	waiting map[string]int // replicas that will sleep when there is memory for it, by object
	actions []Action
}

func (p *planner) do(a Action) { p.actions = append(p.actions, a) }

func (p *planner) object(o ObjectView) {
	awake, asleep := o.split()
	kept, surplus := choose(o, awake)
	running := 0
	for _, r := range awake {
		if r.Running {
			running++
		}
	}
	for _, r := range surplus { // 1. what is not wanted goes, or goes to sleep
		p.unwanted(o, r)
	}
	if o.Deleting && running+len(asleep) == 0 { // 2. the record goes after its last process
		p.do(Action{Verb: RemoveObject, Object: o.Name})
		return
	}
	p.replaceOne(o, kept) // 3. what is outdated is replaced
	// 4. What is missing is woken or else started, and never more than is
	// wanted: a process that ends still holds what is paid for one.
	wrong := o.unplaceable()
	if wrong != nil {
		p.wake(o, asleep, 0)
		if running < o.Wanted {
			p.do(Action{Verb: HoldReplica, Object: o.Name, Index: o.vacant(), Reason: delivery.Unplaceable, Message: wrong.Error()})
		}
		return
	}
	woken := p.wake(o, asleep, o.Wanted-running)
	running += woken
	if woken > 0 {
		kept = p.forgetIdle(o, kept, o.Wanted-running)
	}
	for _, i := range p.missing(o, kept) {
		if running >= o.Wanted {
			return
		}
		running++
		p.start(o, i)
	}
}

// unplaceable is what no submit could have asked for, so that no card can be
// chosen for the object; nil: there is no such thing.
func (o ObjectView) unplaceable() error {
	if o.Wanted > modelspec.MaxReplicas {
		return fmt.Errorf("%d replicas cannot be placed; at most %d can: release the request and submit it again", o.Wanted, modelspec.MaxReplicas)
	}
	if err := o.Request.Check(); err != nil {
		return fmt.Errorf("%w: release the request and submit it again", err)
	}
	return nil
}

// vacant is the first index without a process.
func (o ObjectView) vacant() (i int) {
	for slices.ContainsFunc(o.Replicas, func(r ReplicaView) bool { return r.Index == i && r.Running }) {
		i++
	}
	return i
}

// choose splits an object's replicas that are awake into those that it wants and the rest,
// both in the order of their indexes. A replica that serves is kept before one
// that does not yet, of these the one with more to do, then the older one: the
// least loaded, youngest goes.
func choose(o ObjectView, awake []ReplicaView) (kept, surplus []ReplicaView) {
	best := slices.Clone(awake)
	slices.SortStableFunc(best, func(a, b ReplicaView) int {
		return cmp.Or(worth(o, a)-worth(o, b), b.InFlight-a.InFlight, a.Since.Compare(b.Since), a.Index-b.Index)
	})
	n := min(o.Wanted, len(best))
	kept, surplus = best[:n], best[n:]
	byIndex := func(a, b ReplicaView) int { return a.Index - b.Index }
	slices.SortFunc(kept, byIndex)
	slices.SortFunc(surplus, byIndex)
	return kept, surplus
}

// worth ranks a replica, the best first.
func worth(o ObjectView, r ReplicaView) int {
	switch {
	case r.Stopping, r.Sleep == Dozing:
		return 4
	case !r.Running:
		return 3
	case !r.Ready:
		return 2
	case r.Process != o.Process:
		return 1
	}
	return 0
}

// replaceOne stops one process that its description has outgrown, while all
// others serve: there may be no memory for both.
func (p *planner) replaceOne(o ObjectView, kept []ReplicaView) {
	outdated := -1
	for _, r := range kept {
		switch {
		case r.Running && !r.Stopping && r.Sleep == Awake && r.Process != o.Process:
			outdated = r.Index
		case r.Running && !r.Ready:
			return
		}
	}
	if outdated >= 0 {
		p.do(Action{Verb: StopReplica, Object: o.Name, Index: outdated, Reason: delivery.Draining, Message: "its description changed"})
	}
}

// missing lists the indexes that want a process now: kept ones without one,
// whose time has come, and as many new ones as are wanted beyond.
func (p *planner) missing(o ObjectView, kept []ReplicaView) []int {
	var out []int
	for _, r := range kept {
		if !r.Running && !p.world.Now.Before(r.RetryAt) {
			out = append(out, r.Index)
		}
	}
	used := map[int]bool{}
	for _, r := range o.Replicas {
		used[r.Index] = true
	}
	for i, more := 0, o.Wanted-len(kept); more > 0; i++ {
		if !used[i] {
			out = append(out, i)
			more--
		}
	}
	slices.Sort(out)
	return out
}

func (p *planner) unwanted(o ObjectView, r ReplicaView) {
	switch {
	case !r.Running:
		p.do(Action{Verb: ForgetReplica, Object: o.Name, Index: r.Index})
	case r.Stopping, r.Sleep == Dozing && p.maySleep(o, r):
	case p.couldSleep(o, r) && p.fallsAsleep(o, r):
	default:
		p.do(Action{Verb: StopReplica, Object: o.Name, Index: r.Index, Reason: delivery.Draining, Message: "it is not wanted any more" + p.whyNotAsleep(o, r)})
	}
}

func (p *planner) start(o ObjectView, index int) {
	hold := func(reason delivery.Reason, why string) {
		p.do(Action{Verb: HoldReplica, Object: o.Name, Index: index, Reason: reason, Message: why})
	}
	if !p.look() {
		hold(delivery.Loading, cardsUnclear)
		return
	}
	d, err := placement.Choose([]*placement.View{p.view}, o.Request, p.seen)
	switch {
	case err != nil: // unplaceable has found nothing wrong
		p.lost(fmt.Errorf("place %s: %w", o.Name, err))
		hold(delivery.Loading, cardsUnclear)
	case !d.Fits():
		hold(delivery.NoFragmentFits, d.Reason)
		p.displace(o)
	case p.takeCards(o, d.Cards):
		p.do(Action{Verb: StartReplica, Object: o.Name, Index: index, Cards: d.Cards})
	default:
		hold(delivery.Loading, cardsUnclear)
	}
}

// cardsUnclear is what tenants are told; whoever runs the machine hears more.
const cardsUnclear = "nothing can be placed on this machine, because the figures of its cards make no sense; whoever runs it learns more from /readyz and the log"

// lost notes why nothing can be placed any more in this round.
func (p *planner) lost(err error) { p.blind = cmp.Or(p.blind, err) }

func (p *planner) takeCards(o ObjectView, cards []placement.Chosen) bool {
	for _, c := range cards {
		if err := p.view.Take(c.UUID, o.Request.MiB); err != nil {
			p.lost(fmt.Errorf("place %s: %w", o.Name, err))
			return false
		}
	}
	return true
}

// look computes what is free and which sizes are asked for, and reports whether
// that is known. Nothing but starts needs it, so that figures which make no
// sense keep nothing from stopping.
func (p *planner) look() bool {
	if p.view != nil || p.blind != nil {
		return p.blind == nil
	}
	var held []placement.Allocation
	var recent placement.Recent
	for _, o := range p.objects {
		for _, r := range o.Replicas {
			held = append(held, r.Cards...)
		}
		_ = recent.Saw(o.Name, o.Request) // what cannot be placed is no size to keep room for
	}
	view, err := placement.NewView(p.world.Node, held)
	if err != nil {
		p.lost(fmt.Errorf("compute free memory: %w", err))
		return false
	}
	p.seen, p.view = recent.Sizes(), view
	return true
}
