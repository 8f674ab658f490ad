//go:build unix

package gateway

import "testing"

// TestOpenFilesBoundConnections: what the system does not bear is not taken.
func TestOpenFilesBoundConnections(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		most, want int
		files      uint64
	}{
		{20_000, 20_000, 1 << 20}, {20_000, 768, 1024}, {100, 100, 1024}, {100, 36, 100}, {100, 1, 10}, {20_000, 20_000, 1 << 63},
	} {
		if got := fitting(c.most, c.files); got != c.want {
			t.Errorf("of %d connections %d fit into %d open files, want %d", c.most, got, c.files, c.want)
		}
	}
	if files, known := openFilesLimit(); !known || files == 0 {
		t.Error("the system's limit is not known")
	}
}
