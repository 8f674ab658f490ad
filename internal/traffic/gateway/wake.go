package gateway

import (
	"maps"
	"sync"
	"time"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/route"
)

// wakeAgain is after how long a model that still is not ready is asked for
// once more: the first request may have been lost.
const wakeAgain = 30 * time.Second

// wakes knows which models were asked for, so that a thousand callers of a
// sleeping one wake it once.
type wakes struct {
	mu   sync.Mutex
	last map[route.Key]wakeCall
}

type wakeCall struct{ first, last time.Time }

// ask tells whether k is to be asked for now, and since when it is.
func (w *wakes) ask(k route.Key, now time.Time) (since time.Time, first, ask bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == nil {
		w.last = map[route.Key]wakeCall{}
	}
	call, asked := w.last[k]
	if asked && now.Sub(call.last) < wakeAgain {
		return call.first, false, false
	}
	if !asked {
		call.first = now
	}
	call.last = now
	w.last[k] = call
	return call.first, !asked, true
}

func (w *wakes) asked(k route.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, asked := w.last[k]
	return asked
}

// ready forgets k: the next time that it is not ready is another one.
func (w *wakes) ready(k route.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.last, k)
}

// keep forgets the versions that are not served any more.
func (w *wakes) keep(served func(route.Key) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.last, func(k route.Key, _ wakeCall) bool { return !served(k) })
}

// wakeUp asks for a replica of a version that has callers and none ready.
func (g *Gateway) wakeUp(m *traffic.Model, now time.Time) {
	k := keyOf(m)
	since, first, ask := g.wakes.ask(k, now)
	if first {
		if m.Asleep {
			g.starts.Restart(k, now)
		} else if !m.Pending {
			g.starts.Begin(k, now)
		}
	}
	if ask && g.cfg.Wake != nil {
		g.cfg.Wake(traffic.Wake{
			Owner: m.Owner, Model: m.Name, Version: m.Version, RequestID: m.RequestID, ObjectUID: m.ObjectUID, Since: since,
		})
	}
}
