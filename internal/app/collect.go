package app

import (
	"os"
	"runtime/debug"
)

// seldom is by how many percent a controller's heap may grow before it is
// collected. Its heap is small and what it decodes is thrown away at once: with
// Go's 100 a thousand objects that come up cost it 13 % of its CPU time for
// collection, with 200 it is 8 %, for a third more memory (bench/RESULTS.md).
const seldom = 200

// collectSeldom sets that, unless GOGC says otherwise. GOMEMLIMIT bounds the
// heap where memory is short.
func collectSeldom() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(seldom)
	}
}
