package waitroom

import (
	"testing"
	"time"
)

// TestPaceOfBursts: replicas that free 16 places at a time every second have
// the pace of 16 per second, whenever they are asked.
func TestPaceOfBursts(t *testing.T) {
	t.Parallel()
	var p pace
	now := time.Unix(1_700_000_000, 0)
	want := time.Second / 16
	for burst := range 40 {
		for i := range 16 {
			p.letIn(now)
			if got := p.mean(); burst > 20 && (got < want*9/10 || got > want*11/10) {
				t.Fatalf("after %d bursts and %d: %s, want %s", burst, i, got, want)
			}
		}
		now = now.Add(time.Second)
	}
	p.idle()
	now = now.Add(time.Hour)
	p.letIn(now)
	if got := p.mean(); got < want*9/10 || got > want*11/10 {
		t.Errorf("a pause in which nobody waited counts: %s", got)
	}
	for range 300 { // twice as fast from now on
		now = now.Add(want / 2)
		for range 4 {
			p.letIn(now)
		}
		now = now.Add(want * 3 / 2)
	}
	if got := p.mean(); got < want*4/10 || got > want*6/10 {
		t.Errorf("%s after the pace has doubled, want about %s", got, want/2)
	}
}
