package local

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"modeldock.io/internal/delivery"
	"modeldock.io/internal/placement"
)

// World is what Plan decides by: a copy of everything at one moment.
type World struct {
	Now     time.Time
	Node    placement.Node
	Objects []ObjectView
}

// ObjectView is one object as Plan sees it.
type ObjectView struct {
	Name      string
	CreatedAt time.Time
	Deleting  bool
	Wanted    int    // replicas that should run
	Process   string // identity of the process description, see record.process
	Request   placement.Request
	Replicas  []ReplicaView
}

// ReplicaView is one replica that has a process or a past.
type ReplicaView struct {
	Index    int
	Running  bool // a process exists, in whatever phase
	Stopping bool
	Ready    bool
	Process  string
	Cards    []placement.Allocation
	RetryAt  time.Time // not started before
}

// Verb is what an action does.
type Verb string

// The verbs.
const (
	StartReplica  Verb = "start"  // on Cards
	HoldReplica   Verb = "hold"   // nothing can be started, because of Reason and Message
	StopReplica   Verb = "stop"   // withdraw, drain, stop
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
// Memory is given out in the order in which the objects were created.
func Plan(w World) ([]Action, error) {
	objects := slices.Clone(w.Objects)
	slices.SortFunc(objects, func(a, b ObjectView) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.Name, b.Name))
	})
	p := planner{world: w}
	for _, o := range objects {
		for _, r := range o.Replicas {
			p.taken = append(p.taken, r.Cards...)
		}
	}
	for _, o := range objects {
		if err := p.object(o); err != nil {
			return nil, err
		}
	}
	return p.actions, nil
}

type planner struct {
	world   World
	taken   []placement.Allocation
	actions []Action
}

func (p *planner) do(a Action) { p.actions = append(p.actions, a) }

func (p *planner) object(o ObjectView) error {
	running, outdated, unavailable := 0, -1, 0
	have := map[int]ReplicaView{}
	for _, r := range o.Replicas {
		have[r.Index] = r
		if r.Running {
			running++
		}
		switch {
		case r.Index >= o.Wanted: // 1. what is not wanted goes
			p.unwanted(o, r)
		case r.Running && !r.Stopping && r.Process != o.Process:
			outdated = r.Index
		case r.Running && !r.Ready:
			unavailable++
		}
	}
	if o.Deleting && running == 0 { // 2. the record goes after its last process
		p.do(Action{Verb: RemoveObject, Object: o.Name})
		return nil
	}
	// 3. changed processes are replaced one at a time, because there may be no
	// memory for both.
	if outdated >= 0 && unavailable == 0 {
		p.do(Action{Verb: StopReplica, Object: o.Name, Index: outdated, Reason: delivery.Draining, Message: "its description changed"})
	}
	for i := range o.Wanted { // 4. what is missing is started
		if r, ok := have[i]; ok && (r.Running || p.world.Now.Before(r.RetryAt)) {
			continue
		}
		if err := p.start(o, i); err != nil {
			return err
		}
	}
	return nil
}

func (p *planner) unwanted(o ObjectView, r ReplicaView) {
	switch {
	case !r.Running:
		p.do(Action{Verb: ForgetReplica, Object: o.Name, Index: r.Index})
	case !r.Stopping:
		p.do(Action{Verb: StopReplica, Object: o.Name, Index: r.Index, Reason: delivery.Draining, Message: "it is not wanted any more"})
	}
}

func (p *planner) start(o ObjectView, index int) error {
	d, err := placement.Place([]placement.Node{p.world.Node}, p.taken, o.Request)
	if err != nil {
		return err
	}
	if !d.Fits() {
		p.do(Action{Verb: HoldReplica, Object: o.Name, Index: index, Reason: delivery.NoFragmentFits, Message: d.Reason})
		return nil
	}
	for _, c := range d.Cards {
		p.taken = append(p.taken, placement.Allocation{Owner: replicaName(o.Name, index), Card: c.UUID, MiB: o.Request.MiB})
	}
	p.do(Action{Verb: StartReplica, Object: o.Name, Index: index, Cards: d.Cards})
	return nil
}
