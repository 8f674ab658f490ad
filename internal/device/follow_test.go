package device

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// patience is far beyond what anything here takes.
const patience = 45 * time.Second

// reading is one call of give.
type reading struct {
	cards []Card
	err   error
}

// followed follows until the test ends.
func followed(t *testing.T, i Inventory) <-chan reading {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	readings, done := make(chan reading), make(chan struct{})
	go func() {
		defer close(done)
		i.Follow(ctx, 20*time.Millisecond, func(cards []Card, err error) {
			select {
			case readings <- reading{cards, err}:
			case <-ctx.Done():
			}
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	return readings
}

func until(t *testing.T, readings <-chan reading, what string, good func(reading) bool) {
	t.Helper()
	var last reading
	for deadline := time.After(patience); ; {
		select {
		case last = <-readings:
			if good(last) {
				return
			}
		case <-deadline:
			t.Fatalf("no reading came that %s; the last was %+v", what, last)
		}
	}
}

const oneCard = `[{"uuid":"GPU-1","index":0,"name":"A100","totalMiB":40960,"usedMiB":3,"healthy":true}]`

// realCards returns an inventory whose reader answers a single question with one
// card, and runs a script when it is to follow.
func realCards(t *testing.T, script string) Inventory {
	t.Helper()
	beside := reader(t, `if [ $# -eq 0 ]; then echo '`+oneCard+`'; exit 0; fi
`+script)
	inv, err := Detect(t.Context(), Options{RealOnly: true, executable: beside, findLibrary: func(context.Context) string { return "/lib/x" }})
	if err != nil {
		t.Fatal(err)
	}
	return inv
}

func TestFollowingAReader(t *testing.T) {
	t.Parallel()
	readings := followed(t, realCards(t, `echo '`+oneCard+`'; echo '`+strings.Replace(oneCard, "true", `false,"reason":"hot"`, 1)+`'; read line`))
	until(t, readings, "has a healthy card", func(r reading) bool { return len(r.cards) == 1 && r.cards[0].Healthy })
	until(t, readings, "has the sick card", func(r reading) bool { return len(r.cards) == 1 && r.cards[0].Reason == "hot" })
}

// TestAReaderThatEndsIsStartedAgain also sees its complaint.
func TestAReaderThatEndsIsStartedAgain(t *testing.T) {
	t.Parallel()
	readings := followed(t, realCards(t, `echo '`+oneCard+`'; echo boom >&2; exit 1`))
	for range 2 {
		until(t, readings, "has a card", func(r reading) bool { return len(r.cards) == 1 })
		until(t, readings, "says boom", func(r reading) bool { return r.err != nil && strings.Contains(r.err.Error(), "boom") })
	}
}

func TestAReaderThatHangsIsNoticed(t *testing.T) {
	t.Parallel()
	readings := followed(t, realCards(t, `echo '`+oneCard+`'; exec sleep 600`))
	until(t, readings, "has a card", func(r reading) bool { return len(r.cards) == 1 })
	until(t, readings, "says that it hangs", func(r reading) bool { return r.err != nil && strings.Contains(r.err.Error(), "hangs") })
}

func TestAReaderOfGarbageIsNoticed(t *testing.T) {
	t.Parallel()
	readings := followed(t, realCards(t, `echo hello; read line`))
	until(t, readings, "is an error", func(r reading) bool { return r.err != nil && strings.Contains(r.err.Error(), "read the output") })
}

func TestCardsOfAFileChange(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cards.json")
	write := func(text string) {
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	write(`[{"totalMiB":1000,"healthy":true},{"index":1,"totalMiB":2000,"usedMiB":7,"healthy":true}]`)
	inv, err := Detect(t.Context(), Options{Node: "n", File: path})
	if err != nil || !inv.Simulated || len(inv.Cards) != 2 || inv.Cards[1].UUID != simulatedUUID("n", 1) {
		t.Fatalf("%+v (%v)", inv, err)
	}
	readings := followed(t, inv)
	until(t, readings, "has two healthy cards", func(r reading) bool { return len(r.cards) == 2 && r.cards[0].Healthy })
	write(`[{"totalMiB":1000,"healthy":false,"reason":"hot"},{"index":1,"totalMiB":2000,"healthy":true}]`)
	until(t, readings, "has a hot card", func(r reading) bool { return len(r.cards) == 2 && r.cards[0].Reason == "hot" })
	write(`[{"totalMiB":`)
	until(t, readings, "is an error", func(r reading) bool { return r.err != nil })
}

func TestWrongCardsFilesAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		``, `{}`, `[{"totalMiB":0,"healthy":true}]`, `[{"totalMiB":1000,"usedMiB":1001}]`, `[{"totalMiB":1,"uuid":"GPU-1"}]`,
		`[{"totalMiB":1},{"totalMiB":1}]`, `[{"totalMiB":1,"colour":"red"}]`, `[{"totalMiB":1e4.5}]`, `[{"totalMiB":1,"index":-1}]`, `[{"totalMiB":1,"healthy":true,"reason":"hot"}]`,
	} {
		path := filepath.Join(t.TempDir(), "cards.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if inv, err := FromFile("n", path); err == nil {
			t.Errorf("%s became %+v", text, inv.Cards)
		}
	}
}

func TestRealOnly(t *testing.T) {
	t.Parallel()
	none := func(context.Context) string { return "" }
	if inv, err := Detect(t.Context(), Options{RealOnly: true, findLibrary: none}); err == nil || !strings.Contains(err.Error(), driverLibrary) {
		t.Errorf("without a driver: %+v (%v)", inv, err)
	}
	if inv, err := Detect(t.Context(), Options{RealOnly: true, Cards: "1x100", findLibrary: none}); err != nil || !inv.Simulated {
		t.Errorf("cards that were asked for: %+v (%v)", inv, err)
	}
}
