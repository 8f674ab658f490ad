package wire

import (
	"bytes"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

func TestCanonicalIgnoresOnlyWhatMeansNothing(t *testing.T) {
	t.Parallel()
	spell := func(body string) string {
		t.Helper()
		out, err := Canonical([]byte(body), func(name string) bool { return name == "model" || name == "stream" })
		if err != nil {
			return "error: " + err.Error()
		}
		return string(out)
	}
	same := spell(`{"model":"a","temperature":0,"messages":[{"role":"user","content":"a  b"}]}`)
	for _, body := range []string{
		" {\n\"messages\" : [ {\"role\": \"user\" , \"content\":\"a  b\"}\t], \"temperature\":0 , \"model\":\"b\",\"stream\":true}",
		`{"mod\u0065l":"x","temperature":0,"messages":[{"role":"user","content":"a  b"}]}`,
	} {
		if got := spell(body); got != same {
			t.Errorf("%s is %s, want %s", body, got, same)
		}
	}
	for _, body := range []string{
		`{"temperature":0,"messages":[{"role":"user","content":"a b"}]}`,
		`{"temperature":0.0,"messages":[{"role":"user","content":"a  b"}]}`,
		`{"temperature":0,"messages":[{"content":"a  b","role":"user"}]}`,
		`{"temperature":0,"messages":[{"role":"user","content":"a  b"}],"user":"x"}`,
		`{"temperature":0,"messages":[{"role":"user","content":"\ud800"}]}`,
		`{"temperature":0,"messages":[{"role":"user","content":"\ud801"}]}`,
	} {
		if got := spell(body); got == same {
			t.Errorf("%s is spelled like another request", body)
		}
	}
	if a, b := spell(`{"content":"\ud800"}`), spell(`{"content":"\ud801"}`); a == b {
		t.Error("two texts that a decoder would replace are one")
	}
	if got := spell(`{"a":1,"a":1}`); got != "error: "+errTwice.Error() {
		t.Errorf("a member that is there twice gives %s", got)
	}
}

// What the canonical form says is what the body says.
func TestCanonicalSaysTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		doc := rapid.MapOf(rapid.String(), rapid.OneOf(
			rapid.Map(rapid.String(), func(s string) any { return s }),
			rapid.Map(rapid.SliceOf(rapid.String()), func(s []string) any { return s }),
			rapid.Map(rapid.Int(), func(n int) any { return map[string]any{"n": n, "o": nil} }),
		)).Draw(t, "document")
		plain, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		var wide bytes.Buffer
		if err := json.Indent(&wide, plain, " ", "\t"); err != nil {
			t.Fatal(err)
		}
		a, errA := Canonical(plain, func(string) bool { return false })
		b, errB := Canonical(wide.Bytes(), func(string) bool { return false })
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Fatalf("%s and %s (%v, %v)", a, b, errA, errB)
		}
		var back any
		exact := json.NewDecoder(bytes.NewReader(a))
		exact.UseNumber()
		if err := exact.Decode(&back); err != nil {
			t.Fatalf("%s: %v", a, err)
		}
		again, err := json.Marshal(back)
		if err != nil || !bytes.Equal(again, plain) {
			t.Fatalf("%s became %s (%v)", plain, again, err)
		}
	})
}

func TestRepeatable(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{
		`{"temperature":0.0}`:              true,
		`{"temperature":0,"x":1}`:          true,
		`{"seed":-4}`:                      true,
		`{"temperature":1,"max_tokens":0}`: false,
		`{"seed":null,"temperature":"0"}`:  false,
		`{"temperature":1,"s\u0065ed":4}`:  true,
	} {
		got, err := ScanRequest([]byte(body))
		if err != nil || got.Repeatable != want {
			t.Errorf("%s is %+v (%v), want %t", body, got, err, want)
		}
	}
}
