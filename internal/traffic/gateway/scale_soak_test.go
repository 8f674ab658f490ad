//go:build soak

package gateway_test

import "time"

// hostileStreams is how many streams TestHostileStreams relays.
const hostileStreams = 100_000

// fairTurns is how many answers each modest tenant gets in TestGreedyTenant.
const fairTurns = 1000

// fairPercentile of their waits is compared.
const fairPercentile = 99

// leaveLimit is how late an engine may learn in TestLeavingAtRandom that its
// caller left.
const leaveLimit = time.Second

// floodOfCold is how many requests TestColdModelIsFlooded sends at once.
const floodOfCold = 20_000
