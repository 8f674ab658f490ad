package device

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

const maxCardsFile = 1 << 20

// FromFile returns simulated cards from a JSON file as modeldock-nvml prints
// it: [{"index":0,"name":"a100","totalMiB":40960,"usedMiB":0,"healthy":true}].
// It is read again at every reading, so that a card can fall ill, or its
// memory be used by others, while people watch.
func FromFile(node, path string) (Inventory, error) {
	read := func(context.Context) ([]Card, error) { return readFile(node, path) }
	cards, err := readFile(node, path)
	if err != nil {
		return Inventory{}, err
	}
	return Inventory{Cards: cards, Simulated: true, Why: fmt.Sprintf("%d simulated cards, from %s", len(cards), path), read: read}, nil
}

func readFile(node, path string) ([]Card, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the simulated cards: %w", err)
	}
	defer func() { _ = f.Close() }() // it is only read
	text, err := io.ReadAll(io.LimitReader(f, maxCardsFile))
	if err != nil {
		return nil, fmt.Errorf("read the simulated cards from %s: %w", path, err)
	}
	var cards []Card
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&cards); err != nil {
		return nil, fmt.Errorf(`read the simulated cards from %s: %w: write [{"index":0,"name":"a100","totalMiB":40960,"healthy":true}]`, path, err)
	}
	seen := map[string]bool{}
	for i := range cards {
		c := &cards[i]
		c.Simulated = true
		if c.UUID == "" {
			c.UUID = simulatedUUID(node, c.Index)
		}
		if c.Model == "" {
			c.Model = simulatedModel
		}
		if err := c.checkSimulated(); err != nil {
			return nil, fmt.Errorf("the simulated cards in %s: card %d: %w", path, i, err)
		}
		if seen[c.UUID] {
			return nil, fmt.Errorf("the simulated cards in %s: two have the uuid %s; give each its own index, or a uuid", path, c.UUID)
		}
		seen[c.UUID] = true
	}
	if len(cards) > maxSimulatedCards {
		return nil, fmt.Errorf("the simulated cards in %s: %d are more than %d", path, len(cards), maxSimulatedCards)
	}
	return cards, nil
}

func (c Card) checkSimulated() error {
	switch {
	case !strings.HasPrefix(c.UUID, "SIM-"):
		return fmt.Errorf("the uuid %q does not begin with SIM-, as those of simulated cards do", c.UUID)
	case c.Index < 0:
		return fmt.Errorf("its index is %d; it must not be negative", c.Index)
	case c.Total < 1 || c.Total > maxCardMiB:
		return fmt.Errorf("it has %d MiB; it must have from 1 to %d", c.Total, maxCardMiB)
	case c.Used < 0 || c.Used > c.Total:
		return fmt.Errorf("%d of its %d MiB are used; that is not possible", c.Used, c.Total)
	case c.Healthy && c.Reason != "":
		return errors.New("it is healthy and yet has a reason why it is not")
	}
	return nil
}
