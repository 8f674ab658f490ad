// Package device says which cards this machine has (account 2): real ones as
// NVIDIA's library reports them, or simulated ones from the configuration,
// which are marked as simulated wherever they are shown.
package device

import (
	"context"
	"time"
)

// Card is one GPU, or a simulated one. Sizes are MiB.
type Card struct {
	UUID    string `json:"uuid"`
	Index   int    `json:"index"`
	Model   string `json:"name"`
	Total   int64  `json:"totalMiB"`
	Used    int64  `json:"usedMiB"` // by anybody; 0 for simulated cards
	Healthy bool   `json:"healthy"`
	Reason  string `json:"reason,omitempty"` // why it is not healthy
	// Simulated cards exist in the configuration alone.
	Simulated bool `json:"simulated,omitempty"`
}

// IsolationNone says that nothing keeps the models on a card apart but the
// accounts of their memory.
const IsolationNone = "none"

// Inventory is what one machine has to place models on.
type Inventory struct {
	Cards     []Card
	Simulated bool
	Why       string // which source was chosen and why, for the log

	read   func(ctx context.Context) ([]Card, error)                 // nil where nothing can change
	follow func(context.Context, time.Duration, func([]Card, error)) // nil: read again and again
}

// Refresh reads the cards again: health and used memory change. Simulated
// cards never do.
func (i Inventory) Refresh(ctx context.Context) ([]Card, error) {
	if i.read == nil {
		return i.Cards, nil
	}
	return i.read(ctx)
}
