package delivery

import (
	"fmt"
	"sync"
)

// Doubt is raised when so many objects are missing at once that the view is
// more likely wrong than the world. While it stands nothing is credited, and
// whoever admits asks it first.
type Doubt struct {
	mu  sync.Mutex
	why string
}

// Why is empty while the view is believed.
func (d *Doubt) Why() string {
	if d == nil {
		return ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.why
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
