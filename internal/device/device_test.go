package device

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"modeldock.io/test/executable"
)

func TestParseCards(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][]int64{
		"2x24576":            {24576, 24576},
		"24576,16384":        {24576, 16384},
		"a100=2x40960":       {40960, 40960},
		"a100=1x40960, 8192": {40960, 8192},
	} {
		cards, err := ParseCards("node", in)
		if err != nil {
			t.Errorf("%q: %v", in, err)
			continue
		}
		var got []int64
		for i, c := range cards {
			got = append(got, c.Total)
			if c.Index != i || !c.Healthy || !strings.HasPrefix(c.UUID, "SIM-") {
				t.Errorf("%q: card %d is %+v", in, i, c)
			}
		}
		if len(got) != len(want) || got[0] != want[0] || got[len(got)-1] != want[len(want)-1] {
			t.Errorf("%q: sizes %v, want %v", in, got, want)
		}
	}
	cards, err := ParseCards("node", "a100=40960")
	if err != nil || cards[0].Model != "a100" {
		t.Errorf("named card: %+v %v", cards, err)
	}
	for _, in := range []string{"", "x", "2x", "0x100", "-1", "2x-5", "1.5", "4Gi", "1e4", "2x0", "9999999999", "2000x10", "100,", "a b=5", "1024x1,1x1"} {
		if cards, err := ParseCards("node", in); err == nil {
			t.Errorf("%q became %+v", in, cards)
		}
	}
}

func TestUUIDsAreStableAndDistinct(t *testing.T) {
	t.Parallel()
	a, _ := ParseCards("n1", "3x100")
	b, _ := ParseCards("n1", "2x100,200")
	other, _ := ParseCards("n2", "3x100")
	seen := map[string]bool{}
	for i := range a {
		if a[i].UUID != b[i].UUID {
			t.Errorf("card %d is called %s and %s", i, a[i].UUID, b[i].UUID)
		}
		seen[a[i].UUID], seen[other[i].UUID] = true, true
	}
	if len(seen) != 6 {
		t.Errorf("%d names for 6 cards", len(seen))
	}
}

// reader writes a program that stands in for modeldock-nvml.
func reader(t *testing.T, script string) string {
	t.Helper()
	dir := t.TempDir()
	if err := executable.Write(filepath.Join(dir, Reader), []byte("#!/bin/sh\n"+script+"\n")); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "modeldock")
}

func TestDetect(t *testing.T) {
	t.Parallel()
	there := func(context.Context) string { return "/lib/" + driverLibrary }
	missing := func(context.Context) string { return "" }
	card := `echo '[{"uuid":"GPU-1","index":0,"name":"A100","totalMiB":40960,"usedMiB":3,"healthy":true}]'`
	for name, c := range map[string]struct {
		o         Options
		simulated bool
		cards     int
		why       string
	}{
		"configured": {Options{Cards: "3x100", findLibrary: there}, true, 3, "asked for by configuration"},
		"no driver":  {Options{findLibrary: missing}, true, 2, "no NVIDIA driver library"},
		"real":       {Options{findLibrary: there, executable: reader(t, card)}, false, 1, "1 real cards"},
		"broken":     {Options{findLibrary: there, executable: reader(t, "echo boom >&2; exit 3")}, true, 2, "boom"},
		"garbage":    {Options{findLibrary: there, executable: reader(t, "echo hello")}, true, 2, "could not be read"},
		"no card":    {Options{findLibrary: there, executable: reader(t, "echo '[]'")}, true, 2, "reports no card"},
		"no reader":  {Options{findLibrary: there, executable: "/nowhere/modeldock"}, true, 2, "CGO_ENABLED=1 go build"},
	} {
		inv, err := Detect(t.Context(), c.o)
		if err != nil || inv.Simulated != c.simulated || len(inv.Cards) != c.cards || !strings.Contains(inv.Why, c.why) {
			t.Errorf("%s: %+v (%v)", name, inv, err)
			continue
		}
		again, err := inv.Refresh(t.Context())
		if err != nil || len(again) != c.cards || again[0].UUID != inv.Cards[0].UUID {
			t.Errorf("%s: refreshed to %+v (%v)", name, again, err)
		}
	}
	if inv, err := Detect(t.Context(), Options{Cards: "nonsense"}); err == nil {
		t.Errorf("nonsense became %+v", inv)
	}
}
