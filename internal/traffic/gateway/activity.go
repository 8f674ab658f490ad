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

// arrivalSeconds is for how long arrivals are counted by the second.
const arrivalSeconds = 64

// arrivals are the requests that came within one second.
type arrivals struct {
	second int64
	n      int
}

// service is how long requests took, once they were sent to a replica.
type service struct {
	sum time.Duration
	n   int
}

// activities remember of each version when it was last used and how fast it
// answered, for whoever decides how many replicas it should have.
type activities struct{ byKey sync.Map } // of *activity by route.Key

type activity struct {
	mu      sync.Mutex
	came    [arrivalSeconds]arrivals
	served  [2]service // of the present and the last window
	last    time.Time  // a request came or ended
	window  time.Time  // when recent began
	latest  traffic.Latencies
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

// arrive notes a request that needs a replica.
func (a *activity) arrive(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.After(a.last) {
		a.last = now
	}
	slot := &a.came[now.Unix()%arrivalSeconds]
	if slot.second != now.Unix() {
		*slot = arrivals{second: now.Unix()}
	}
	slot.n++
}

// end notes its end; took is how long a replica worked on it, 0 if none did.
func (a *activity) end(took time.Duration, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.After(a.last) {
		a.last = now
	}
	if took > 0 {
		a.roll(now)
		a.served[0].sum, a.served[0].n = a.served[0].sum+took, a.served[0].n+1
	}
}

// recent counts the arrivals of the last mean service time; nil if that is not
// known and some came.
func (a *activity) recent(now time.Time) *int {
	took := service{a.served[0].sum + a.served[1].sum, a.served[0].n + a.served[1].n}
	span := int64(arrivalSeconds - 1)
	if took.n > 0 {
		span = min(span, max(1, int64(took.sum/time.Duration(took.n)/time.Second)))
	}
	n := 0
	for _, c := range a.came {
		if age := now.Unix() - c.second; age >= 0 && age < span+1 { // the present second is not over
			n += c.n
		}
	}
	if took.n == 0 && n > 0 {
		return nil
	}
	return &n
}

func (a *activity) firstChunk(took time.Duration, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.roll(now)
	a.latest.Observe(took)
}

// tell puts what is known at now into a load.
func (a *activity) tell(l *traffic.Load, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.roll(now)
	l.FirstChunk = a.earlier
	l.FirstChunk.Add(a.latest)
	l.LastRequest, l.Recent = a.last, a.recent(now)
}

// roll begins a new window when the present one is over.
func (a *activity) roll(now time.Time) {
	age := now.Sub(a.window)
	if age < latencyWindow {
		return
	}
	a.earlier, a.served[1] = a.latest, a.served[0]
	if age >= 2*latencyWindow {
		a.earlier = traffic.Latencies{}
	}
	a.latest, a.served[0], a.window = traffic.Latencies{}, service{}, now
}

// Loads tells of every version that takes requests what this gateway knows of
// its load.
func (g *Gateway) Loads() []traffic.Load {
	view, err := g.known()
	if err != nil {
		return nil
	}
	now := g.cfg.Clock()
	inFlight := g.cfg.Table.InFlightByKey()
	waiting, oldest := map[route.Key]int{}, map[route.Key]time.Duration{}
	for k, q := range g.room.Queues() {
		waiting[k.Key] += q.Waiting
		oldest[k.Key] = max(oldest[k.Key], q.Oldest)
	}
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
				Waiting: waiting[k], InFlight: inFlight[k], OldestWait: oldest[k], Replicas: replicas[k],
			}
			g.activities.of(k).tell(&l, now)
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
