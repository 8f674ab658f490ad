//go:build !soak

package gateway_test

// hostileStreams is how many streams TestHostileStreams relays.
const hostileStreams = 3000

// fairTurns is how many answers each modest tenant gets in TestGreedyTenant.
const fairTurns = 40

// fairPercentile of their waits is compared; of so few, the highest are noise.
const fairPercentile = 50
