package gateway

import (
	"testing"
	"time"

	"modeldock.io/internal/traffic/route"
)

// A model that is released before it was ready is forgotten.
func TestWakesForgetWhatIsNotServed(t *testing.T) {
	t.Parallel()
	var w wakes
	now := time.Unix(100, 0)
	gone, served := route.Key{Owner: "a", Model: "gone"}, route.Key{Owner: "a", Model: "served"}
	w.ask(gone, now)
	w.ask(served, now)
	w.keep(func(k route.Key) bool { return k == served })
	if len(w.last) != 1 || !w.asked(served) {
		t.Errorf("asked for %v", w.last)
	}
}
