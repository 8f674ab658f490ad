//go:build soak

package gateway_test

// hostileStreams is how many streams TestHostileStreams relays.
const hostileStreams = 100_000
