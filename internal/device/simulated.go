package device

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// DefaultCards is what a machine without GPUs pretends to have.
const DefaultCards = "2x24576"

const (
	maxSimulatedCards = 1024
	maxCardMiB        = 16 << 20
	simulatedModel    = "simulated"
)

var cardPattern = regexp.MustCompile(`^(?:([A-Za-z0-9][A-Za-z0-9._-]*)=)?(?:([0-9]{1,4})x)?([0-9]{1,9})$`)

// ParseCards reads the description of simulated cards: groups separated by
// commas, each [NAME=][COUNTx]MIB, for example "2x24576", "24576,16384" or
// "a100=2x40960". The same description always gives the same uuids, on one
// node.
func ParseCards(node, description string) ([]Card, error) {
	var cards []Card
	for group := range strings.SplitSeq(description, ",") {
		m := cardPattern.FindStringSubmatch(strings.TrimSpace(group))
		if m == nil {
			return nil, fmt.Errorf(`cards %q: %q is not [NAME=][COUNTx]MIB, for example "2x24576" or "a100=2x40960"`, description, group)
		}
		count := 1
		if m[2] != "" {
			count, _ = strconv.Atoi(m[2]) // at most four digits
		}
		mib, _ := strconv.ParseInt(m[3], 10, 64) // at most nine digits
		if count < 1 || len(cards)+count > maxSimulatedCards {
			return nil, fmt.Errorf("cards %q: %d more cards would make %d; from 1 to %d are possible", description, count, len(cards)+count, maxSimulatedCards)
		}
		if mib < 1 || mib > maxCardMiB {
			return nil, fmt.Errorf("cards %q: a card of %d MiB is not possible; it must have from 1 to %d", description, mib, maxCardMiB)
		}
		model := simulatedModel
		if m[1] != "" {
			model = m[1]
		}
		for range count {
			cards = append(cards, Card{UUID: simulatedUUID(node, len(cards)), Index: len(cards), Model: model, Total: mib, Healthy: true, Simulated: true})
		}
	}
	return cards, nil
}

// simulatedUUID depends on the place alone, so that a card keeps its name over
// restarts, and looks like no real one.
func simulatedUUID(node string, index int) string {
	sum := sha256.Sum256([]byte(node + "\x00" + strconv.Itoa(index)))
	h := hex.EncodeToString(sum[:])
	return fmt.Sprintf("SIM-%s-%s-%s-%s-%s", h[:8], h[8:12], h[12:16], h[16:20], h[20:32])
}

// Simulated returns an inventory of simulated cards.
func Simulated(node, description string) (Inventory, error) {
	cards, err := ParseCards(node, description)
	if err != nil {
		return Inventory{}, err
	}
	return Inventory{Cards: cards, Simulated: true}, nil
}
