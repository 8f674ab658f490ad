//go:build !soak

package gateway_test

// hostileStreams is how many streams TestHostileStreams relays.
const hostileStreams = 3000

// fairTurns is how many answers each modest tenant gets in TestGreedyTenant.
const fairTurns = 40
