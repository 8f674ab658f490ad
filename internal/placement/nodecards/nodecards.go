// Package nodecards is how a node of a cluster says which cards it has
// (account 2): an annotation that its agent writes and that the scheduler
// reads. Whoever reads it takes nothing for granted: a card that is not
// exactly described counts for nothing, and is an error that names it.
package nodecards

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Annotation of a node with its cards.
const Annotation = "modeldock.io/cards"

// Isolation says what keeps the models on one card apart.
type Isolation string

// The kinds of isolation.
const (
	IsolationNone Isolation = "none" // accounts alone
	IsolationMPS  Isolation = "mps"
	IsolationMIG  Isolation = "mig"
)

// Limits of what is believed.
const (
	maxCards    = 1024
	maxTotalMiB = 16 << 20
	maxText     = 256 << 10 // a node's annotations hold no more
)

// Card is one card of a node.
type Card struct {
	UUID      string    `json:"uuid"`
	Index     int       `json:"index"`
	Model     string    `json:"model"`
	TotalMiB  int64     `json:"totalMiB"`
	Healthy   bool      `json:"healthy"`
	Isolation Isolation `json:"isolation"`
	Simulated bool      `json:"simulated"`
}

// Encode writes the annotation.
func Encode(cards []Card) (string, error) {
	if err := check(cards); err != nil {
		return "", fmt.Errorf("describe the cards of a node: %w", err)
	}
	if cards == nil {
		cards = []Card{} // none, instead of nothing said
	}
	text, err := json.Marshal(cards)
	if err != nil {
		return "", fmt.Errorf("describe the cards of a node: %w", err)
	}
	return string(text), nil
}

// Parse reads the annotation.
func Parse(text string) ([]Card, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("read the annotation %s: it has %d bytes; at most %d are possible", Annotation, len(text), maxText)
	}
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.DisallowUnknownFields()
	var cards []Card
	if err := dec.Decode(&cards); err != nil {
		return nil, fmt.Errorf("read the annotation %s: %w", Annotation, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the annotation %s: it goes on after the list of cards", Annotation)
	}
	if err := check(cards); err != nil {
		return nil, fmt.Errorf("read the annotation %s: %w", Annotation, err)
	}
	return cards, nil
}

func check(cards []Card) error {
	if len(cards) > maxCards {
		return fmt.Errorf("%d cards are more than %d", len(cards), maxCards)
	}
	seen := make(map[string]bool, len(cards))
	for i, c := range cards {
		if err := c.check(); err != nil {
			return fmt.Errorf("card %d: %w", i, err)
		}
		if seen[c.UUID] {
			return fmt.Errorf("card %d: the uuid %s is there twice", i, c.UUID)
		}
		seen[c.UUID] = true
	}
	return nil
}

func (c Card) check() error {
	switch {
	case c.UUID == "":
		return errors.New("it has no uuid")
	case c.Index < 0:
		return fmt.Errorf("%s has the index %d", c.UUID, c.Index)
	case c.TotalMiB < 1 || c.TotalMiB > maxTotalMiB:
		return fmt.Errorf("%s has %d MiB; from 1 to %d are possible", c.UUID, c.TotalMiB, maxTotalMiB)
	case c.Isolation != IsolationNone && c.Isolation != IsolationMPS && c.Isolation != IsolationMIG:
		return fmt.Errorf("%s has the isolation %q; none, mps and mig are known", c.UUID, c.Isolation)
	}
	return nil
}
