package wire

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

// Of a JSON object in any pieces only the whole has ended.
func TestWholeKnowsTheEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		doc, err := json.Marshal(rapid.MapOf(rapid.String(), rapid.OneOf(
			rapid.Map(rapid.StringOf(rapid.SampledFrom([]rune(`"\{}[]a`+"\n"))), func(s string) any { return s }),
			rapid.Map(rapid.SliceOf(rapid.String()), func(s []string) any { return s }),
			rapid.Map(rapid.Int(), func(n int) any { return map[string]any{"n": n, "o": nil} }),
		)).Draw(t, "document"))
		if err != nil {
			t.Fatal(err)
		}
		step := rapid.IntRange(1, 9).Draw(t, "step")
		var w Whole
		for at := 0; at < len(doc); at += step {
			if w.Ended() {
				t.Fatalf("%s has ended before byte %d", doc, at)
			}
			w.Add(doc[at:min(at+step, len(doc))])
		}
		if !w.Ended() {
			t.Fatalf("%s has not ended", doc)
		}
	})
	for text, want := range map[string]bool{"": false, `{"a":"b}`: false, `{"a":"b\"}`: false, "{} \n": true, `[{}`: false} {
		var w Whole
		if w.Add([]byte(text)); w.Ended() != want {
			t.Errorf("%q: %t", text, !want)
		}
	}
}
