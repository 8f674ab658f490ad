//go:build !race

package sqlledger_test

// checks is how many random sequences a comparison runs.
const checks = "100"
