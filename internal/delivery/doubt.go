package delivery

import (
	"fmt"
	"sync"
)

// Doubt is why ledger and world are not acted upon. It is raised when so many
// objects are missing at once that the view is more likely wrong than the
// world: then nothing is credited, and whoever admits asks it first. And it is
// halted while the ledger itself may be the wrong one: then nothing is
// admitted, delivered, credited or repaired at all.
type Doubt struct {
	rounds sync.RWMutex // held by rounds under way

	mu     sync.Mutex
	why    string
	halted string
}

// Why is empty while ledger and view are believed.
func (d *Doubt) Why() string {
	if d == nil {
		return ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.halted != "" {
		return d.halted
	}
	return d.why
}

// Halted is why nothing at all is done, or empty.
func (d *Doubt) Halted() string {
	if d == nil {
		return ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.halted
}

// Begin asks whether a round may act on ledger and world; if so, done must be
// called at its end.
func (d *Doubt) Begin() (done func(), ok bool) {
	if d == nil {
		return func() {}, true
	}
	d.rounds.RLock()
	if d.Halted() != "" {
		d.rounds.RUnlock()
		return nil, false
	}
	return d.rounds.RUnlock, true
}

// Halt stops rounds from beginning and returns when none is under way. A
// caller within a round would wait for itself.
func (d *Doubt) Halt(why string) {
	d.mu.Lock()
	d.halted = why
	d.mu.Unlock()
	d.rounds.Lock()
	defer d.rounds.Unlock() // whoever had begun has ended
}

// Resume lets rounds begin again.
func (d *Doubt) Resume() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.halted = ""
}

func (d *Doubt) set(why string) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.why = why
}

// unbelievable says why so many missing objects are not believed: more than
// ten, and more than a tenth.
func unbelievable(missing, total int) string {
	if missing <= 10 || missing*10 <= total {
		return ""
	}
	return fmt.Sprintf("%d of %d objects are missing at once: that is not believed, so nothing is admitted or credited until they are back or the target is repaired", missing, total)
}
