package gateway

import (
	"sync"
	"time"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/route"
)

// latencyWindow is how long first chunks are counted together; what is told
// are the present and the last window.
const latencyWindow = time.Minute

// activities remember of each version when it was last used and how fast it
// answered, for whoever decides how many replicas it should have.
type activities struct{ byKey sync.Map } // of *activity by route.Key

type activity struct {
	mu      sync.Mutex
	last    time.Time // a request came or ended
	window  time.Time // when recent began
	recent  traffic.Latencies
	earlier traffic.Latencies
}

func (a *activities) of(k route.Key) *activity {
	if v, known := a.byKey.Load(k); known {
		return v.(*activity) //nolint:forcetypeassert // ours alone
	}
	v, _ := a.byKey.LoadOrStore(k, &activity{})
	return v.(*activity) //nolint:forcetypeassert // ours alone
}

// keep forgets the versions that are not served any more.
func (a *activities) keep(served func(route.Key) bool) {
	a.byKey.Range(func(k, _ any) bool {
		if !served(k.(route.Key)) { //nolint:forcetypeassert // ours alone
			a.byKey.Delete(k)
		}
		return true
	})
}

func (a *activity) touch(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.After(a.last) {
		a.last = now
	}
}

func (a *activity) firstChunk(took time.Duration, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.roll(now)
	a.recent.Observe(took)
}

// told is what is known at now.
func (a *activity) told(now time.Time) (last time.Time, first traffic.Latencies) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.roll(now)
	first = a.earlier
	first.Add(a.recent)
	return a.last, first
}

// roll begins a new window when the present one is over.
func (a *activity) roll(now time.Time) {
	age := now.Sub(a.window)
	if age < latencyWindow {
		return
	}
	a.earlier = a.recent
	if age >= 2*latencyWindow {
		a.earlier = traffic.Latencies{}
	}
	a.recent, a.window = traffic.Latencies{}, now
}

// Loads tells of every version that takes requests what this gateway knows of
// its load.
func (g *Gateway) Loads() []traffic.Load {
	view, err := g.known()
	if err != nil {
		return nil
	}
	now := g.cfg.Clock()
	waiting, inFlight := g.Waiting(), g.cfg.Table.InFlightByKey()
	replicas := map[route.Key][]traffic.ReplicaLoad{}
	for _, s := range g.cfg.Table.Standings() {
		k := route.KeyOf(s.Endpoint)
		replicas[k] = append(replicas[k], replicaLoad(s))
	}
	served := map[route.Key]bool{}
	var loads []traffic.Load
	for _, versions := range view.live {
		for _, m := range versions {
			k := keyOf(m)
			served[k] = true
			l := traffic.Load{
				Owner: m.Owner, Model: m.Name, Version: m.Version, RequestID: m.RequestID,
				Waiting: waiting[k], InFlight: inFlight[k], Replicas: replicas[k],
			}
			l.LastRequest, l.FirstChunk = g.activities.of(k).told(now)
			loads = append(loads, l)
		}
	}
	g.activities.keep(func(k route.Key) bool { return served[k] || inFlight[k] > 0 })
	return loads
}

func replicaLoad(s route.Standing) traffic.ReplicaLoad {
	l := traffic.ReplicaLoad{UID: s.Endpoint.UID, InFlight: s.InFlight}
	if s.Signal != nil {
		l.Waiting, l.Running = told(s.Signal.Waiting), told(s.Signal.Running)
		l.KVUsage, l.Memory = told(s.Signal.KVUsage), told(s.Signal.Memory)
	}
	return l
}

func told(f route.Figure) *float64 {
	if !f.Known {
		return nil
	}
	return &f.Value
}
