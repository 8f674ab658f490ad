package fair_test

import (
	"testing"

	"pgregory.net/rapid"

	"modeldock.io/internal/fair"
)

// Whatever is held: all together keep no more than may be, nothing goes that
// need not, and whoever loses something keeps as much as anybody.
func TestEvenShare(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		held := rapid.SliceOfN(rapid.Int64Range(0, 1000), 0, 20).Draw(t, "held")
		most := rapid.Int64Range(0, 5000).Draw(t, "most")
		share, kept, all := fair.EvenShare(held, most), int64(0), int64(0)
		for _, h := range held {
			kept, all = kept+min(h, share), all+h
		}
		if kept > most || kept < min(most, all)-int64(len(held)) {
			t.Fatalf("of %v %d are kept with a share of %d, %d may be", held, kept, share, most)
		}
		if all <= most && kept != all {
			t.Fatalf("of %v %d go, and none has to", held, all-kept)
		}
	})
}
