package nodecards

import (
	"slices"
	"testing"
)

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, cards := range [][]Card{
		{},
		{{UUID: "GPU-1", Index: 0, Model: "A100", TotalMiB: 40960, Healthy: true, Isolation: IsolationNone}, {UUID: "SIM-2", Index: 1, TotalMiB: 1, Isolation: IsolationMIG, Simulated: true}},
	} {
		text, err := Encode(cards)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Parse(text); err != nil || !slices.Equal(got, cards) {
			t.Errorf("%s became %+v (%v)", text, got, err)
		}
	}
	if text, err := Encode(nil); err != nil || text != "[]" {
		t.Errorf("no cards became %q (%v)", text, err)
	}
	if text, err := Encode([]Card{{UUID: "x"}}); err == nil {
		t.Errorf("a card of no size became %s", text)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	card := func(more string) string {
		return `[{"uuid":"a","index":0,"model":"m","totalMiB":10,"healthy":true,"isolation":"none","simulated":false` + more + `}]`
	}
	if _, err := Parse(card("")); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"", "{}", "hello", `[{"uuid":"a"}]`, card(`,"colour":"red"`), card("") + "x", card(`,"totalMiB":0`), card(`,"totalMiB":-1`), card(`,"totalMiB":1.5`),
		card(`,"totalMiB":"4Gi"`), card(`,"totalMiB":99999999999999999999`), card(`,"totalMiB":16777217`), card(`,"uuid":""`), card(`,"index":-1`), card(`,"isolation":"hope"`),
		`[{"uuid":"a","index":0,"totalMiB":10,"isolation":"none"},{"uuid":"a","index":1,"totalMiB":10,"isolation":"none"}]`,
	} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%s became %+v", text, got)
		}
	}
}
