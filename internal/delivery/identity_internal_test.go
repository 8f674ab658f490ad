package delivery

import (
	"strings"
	"testing"
)

// What an engine calls itself is cut where it is shown.
func TestIdentityIsBounded(t *testing.T) {
	t.Parallel()
	if got := Identity("demo", "vllm"); got != "demo (owned by vllm)" {
		t.Errorf("%q", got)
	}
	long := strings.Repeat("é", 150_000)
	if got := Identity(long, long); len(got) > 3*maxIdentity || !strings.Contains(got, "… (300000 bytes)") {
		t.Errorf("%d bytes: %.80q", len(got), got)
	}
}
