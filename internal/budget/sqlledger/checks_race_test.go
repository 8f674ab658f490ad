//go:build race

package sqlledger_test

// checks is how many random sequences a comparison runs; the race detector
// makes the pure-Go engine several times slower.
const checks = "15"
