package local

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// Whoever has the most ended models loses the oldest logs first.
func TestGoneLogsAreShared(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_700_000_000, 0)
	gone := []goneLogs{{"b1", "team-b", start}, {"old", "", start}}
	for i := range 10 {
		gone = append(gone, goneLogs{string(rune('0' + i)), "team-a", start.Add(time.Duration(i+1) * time.Second)})
	}
	for keep, want := range map[int]string{12: "", 8: "0123", 3: "012345678", 1: "012345678"} {
		var lost []string
		for _, g := range surplusLogs(slices.Clone(gone), keep) {
			lost = append(lost, g.path)
		}
		slices.Sort(lost)
		if got := strings.Join(lost, ""); got != want {
			t.Errorf("with room for %d, %q go, want %q", keep, got, want)
		}
	}
}
