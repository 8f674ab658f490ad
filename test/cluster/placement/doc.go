// Package placement tests modeldock-scheduler on a real control plane with
// simulated nodes. It holds tests alone.
package placement
