//go:build soak

package gateway_test

// hostileStreams is how many streams TestHostileStreams relays.
const hostileStreams = 100_000

// fairTurns is how many answers each modest tenant gets in TestGreedyTenant.
const fairTurns = 1000

// fairPercentile of their waits is compared.
const fairPercentile = 99
