//go:build !soak

package gateway_test

import "time"

// hostileStreams is how many streams TestHostileStreams relays.
const hostileStreams = 3000

// fairTurns is how many answers each modest tenant gets in TestGreedyTenant.
const fairTurns = 40

// fairPercentile of their waits is compared; of so few, the highest are noise.
const fairPercentile = 50

// leaveLimit is how late an engine may learn in TestLeavingAtRandom that its
// caller left; on a busy machine a second tells nothing.
const leaveLimit = 10 * time.Second

// floodOfCold is how many requests TestColdModelIsFlooded sends at once.
const floodOfCold = 2000
