package strictjson

import (
	"strings"
	"testing"
)

func TestHalfACharacterIsRefused(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		`"\ud83d\ude00"`: true, `"\u00e9"`: true, `"\\ud800"`: true, `"\\\\ud800"`: true, `"\ufffd"`: true, `"a\n\u0041"`: true,
		`"\ud800"`: false, `"\ude00"`: false, `"\ud83d\u0041"`: false, `"\ud83dx"`: false, `"\ude00\ud83d"`: false, `"\\\ud800"`: false, `"\uD83D\uDE00\ud83d"`: false,
	} {
		var out struct {
			Text string `json:"text"`
		}
		err := Decode([]byte(`{"text":`+text+`}`), &out)
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "half a character") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
