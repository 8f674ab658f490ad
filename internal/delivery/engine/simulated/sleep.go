package simulated

import (
	"net/http"
	"sync"
	"time"
)

// nap is whether the engine sleeps: its weights are in host memory, as it
// pretends, and it uses no memory of its card.
type nap struct {
	mu     sync.Mutex
	asleep bool // until a wake-up is over
	waking bool
}

// handleSleep serves vLLM's three requests of its sleep mode, if it was started
// with it. They are for whoever runs the engine and for no caller.
func (e *Engine) handleSleep(mux *http.ServeMux) {
	if !e.opts.SleepMode {
		return
	}
	mux.HandleFunc("POST /sleep", e.sleep)
	mux.HandleFunc("POST /wake_up", e.wakeUp)
	mux.HandleFunc("GET /is_sleeping", e.isSleeping)
}

// Asleep reports whether it answers no inference now because it sleeps.
func (e *Engine) Asleep() bool {
	e.nap.mu.Lock()
	defer e.nap.mu.Unlock()
	return e.nap.asleep
}

// sleep gives the memory of the card back. It keeps the weights, which is
// vLLM's level 1; nothing is known here of another.
func (e *Engine) sleep(w http.ResponseWriter, r *http.Request) {
	level := r.URL.Query().Get("level")
	e.nap.mu.Lock()
	defer e.nap.mu.Unlock()
	switch {
	case e.loadedAt.Load() == 0:
		fail(w, http.StatusServiceUnavailable, "loading", "the model is loading")
	case level != "" && level != "1":
		fail(w, http.StatusBadRequest, "invalid_request_error", "the simulated engine sleeps at level 1 only; got level "+level)
	case e.opts.FailSleep:
		fail(w, http.StatusInternalServerError, "internal_error", "it does not fall asleep, as told by --fail-sleep")
	case e.nap.waking:
		fail(w, http.StatusConflict, "conflict", "it is just waking up")
	case len(e.slots) > 0:
		fail(w, http.StatusConflict, "conflict", "requests are running")
	default:
		if !e.nap.asleep {
			e.nap.asleep = true
			e.metrics.slept()
		}
		w.WriteHeader(http.StatusOK)
	}
}

// wakeUp answers once inference is served again. It takes the memory first.
func (e *Engine) wakeUp(w http.ResponseWriter, _ *http.Request) {
	e.nap.mu.Lock()
	begins := e.nap.asleep && !e.nap.waking
	e.nap.waking = e.nap.waking || begins
	e.nap.mu.Unlock()
	switch {
	case e.opts.FailWake:
		fail(w, http.StatusInternalServerError, "internal_error", "it does not wake up, as told by --fail-wake")
		return
	case !begins:
		w.WriteHeader(http.StatusOK) // it is awake, or somebody else wakes it
		return
	}
	e.metrics.woken(e.opts.MemoryMiB)
	time.Sleep(e.opts.WakeDelay) // a caller that leaves does not stop it
	e.nap.mu.Lock()
	e.nap.asleep, e.nap.waking = false, false
	e.nap.mu.Unlock()
	w.WriteHeader(http.StatusOK)
}

func (e *Engine) isSleeping(w http.ResponseWriter, _ *http.Request) {
	reply(w, map[string]any{"is_sleeping": e.Asleep()})
}
