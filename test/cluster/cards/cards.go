// Package cards tests on a real kubelet that a container sees exactly the card
// that was decided for it, whichever way cards are delivered.
package cards
