package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func patched(t *testing.T, body []byte, r Request, upstream string, wantUsage bool) []byte {
	t.Helper()
	pieces, length := Pieces(body, r.Patches(upstream, wantUsage))
	out := bytes.Join(pieces, nil)
	if int64(len(out)) != length {
		t.Fatalf("%d bytes, announced as %d", len(out), length)
	}
	return out
}

func TestScanFindsAndPatches(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"model":"a"}`: `{"model":"b"}`,
		"\n { \"x\" : [1, {\"model\":\"z\"}] ,\t\"model\" : \"a\" } \r\n":                  "\n { \"x\" : [1, {\"model\":\"z\"}] ,\t\"model\" : \"b\" } \r\n",
		`{"stream":true,"model":"a"}`:                                                      `{"stream":true,"model":"b","stream_options":{"include_usage":true}}`,
		`{"stream":false,"model":"a"}`:                                                     `{"stream":false,"model":"b"}`,
		`{"stream":null,"model":"a"}`:                                                      `{"stream":null,"model":"b"}`,
		`{"stream":true,"stream_options":{"include_usage":null},"model":"a"}`:              `{"stream":true,"stream_options":{"include_usage":true},"model":"b"}`,
		`{"model":"a","n":1.50e+1,"s":"é\u00e9\n\"","big":123456789012345678901234567890}`: `{"model":"b","n":1.50e+1,"s":"é\u00e9\n\"","big":123456789012345678901234567890}`,
	} {
		r, err := ScanRequest([]byte(body))
		if err != nil || r.Model != "a" {
			t.Errorf("%s: %+v, %v", body, r, err)
			continue
		}
		if got := string(patched(t, []byte(body), r, "b", true)); got != want {
			t.Errorf("%s became %s, want %s", body, got, want)
		}
	}
}

func TestScanRefuses(t *testing.T) {
	t.Parallel()
	for body, code := range map[string]string{
		``: "invalid_json", `[]`: "invalid_json", `"model"`: "invalid_json", `{"model":"a"} {}`: "invalid_json",
		`{"model":"a"}` + "\x00": "invalid_json", `{"model":"a",}`: "invalid_json", `{"model":"a" "b":1}`: "invalid_json",
		`{'model':'a'}`: "invalid_json", `{"model":"a","x":01}`: "invalid_json", `{"model":"a","x":.5}`: "invalid_json",
		`{"model":"a","x":tru}`: "invalid_json", `{"model":"a","x":"` + "\n" + `"}`: "invalid_json", `{"model":"a","x":"\x"}`: "invalid_json",
		`{"model":"a","x":"\u12g4"}`: "invalid_json", `{"model":"a","x":NaN}`: "invalid_json", `{"model":"a"`: "invalid_json",
		`{"model":"a","x":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`: "invalid_json",
		`{"model":"a","stream":"true"}`:                                           "invalid_type",
		`{"model":"a","stream_options":[]}`:                                       "invalid_type",
		`{"model":{}}`:                                                            "invalid_type",
		`{"model":"a","stream":true,"stream":false}`:                              "duplicate_member",
		`{"model":"a","stream_options":{},"stream_options":{}}`:                   "duplicate_member",
		`{"model":"a","stream_options":{"include_usage":1,"include_usage":true}}`: "duplicate_member",
		`{"model":"a","model":"a"}`:                                               "ambiguous_model",
		`{"mOdel":"a"}`:                                                           "ambiguous_model",
		`{"model":"a","Stream":true}`:                                             "invalid_member",
		`{"M\u006fdel":"a","model":"a"}`:                                          "ambiguous_model",
	} {
		_, err := ScanRequest([]byte(body))
		var known *RequestError
		if !errors.As(err, &known) || known.Code != code {
			t.Errorf("%.80s: %v, want %s", body, err, code)
		}
	}
}

// TestMembersAreReadOneWay: each member that the gateway reads may be there
// once, and only as it is spelt: not as Go's JSON would also take it.
func TestMembersAreReadOneWay(t *testing.T) {
	t.Parallel()
	refused := func(body, param, code string) {
		_, err := ScanRequest([]byte(body))
		var known *RequestError
		if !errors.As(err, &known) || known.Code != spelling(param, code) || known.Param != param {
			t.Errorf("%s: %v, want %s of %s", body, err, code, param)
		}
	}
	for _, name := range readMembers {
		value := "null"
		if name == "model" {
			value = `"a"`
		}
		refused(`{"`+name+`":`+value+`,"x":1,"`+name+`":`+value+`}`, name, "duplicate_member")
		escaped := fmt.Sprintf(`\u%04x`, name[0]) + name[1:]
		refused(`{"`+name+`":`+value+`,"`+escaped+`":`+value+`}`, name, "duplicate_member")
		others := []string{strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:], fmt.Sprintf(`\u%04x`, name[0]-0x20) + name[1:]}
		for _, c := range [][2]string{{"s", "ſ"}, {"k", "K"}, {"k", `\u212a`}} {
			if other := strings.Replace(name, c[0], c[1], 1); other != name {
				others = append(others, other)
			}
		}
		for _, other := range others {
			refused(`{"x":1,"`+other+`":`+value+`}`, name, "invalid_member")
		}
	}
	refused(`{"stream_options":{"include_usage":true,"include\u005fusage":false}}`, "stream_options.include_usage", "duplicate_member")
	refused(`{"stream_options":{"Include_Usage":false}}`, "stream_options.include_usage", "invalid_member")
	refused(`{"stream_options":{"include_uſage":false}}`, "stream_options.include_usage", "invalid_member")
	for _, body := range []string{`{"maxtokens":1}`, `{"metadata":{"N":1,"MAX_TOKENS":2}}`, `{"\u00c7":1}`, "{\"\xff\":1}", `{"":1}`, `{"m":1,"nn":2}`} {
		if _, err := ScanRequest([]byte(body)); err != nil {
			t.Errorf("%q: %v", body, err)
		}
	}
}

// TestPlainPrefix compares the eight-at-a-time search with the obvious one.
func TestPlainPrefix(t *testing.T) {
	t.Parallel()
	for special := range 256 {
		for at := range 20 {
			b := bytes.Repeat([]byte{'x', 0x80, 0xff, ' '}, 6)
			b[at] = byte(special)
			want := len(b)
			if special == '"' || special == '\\' || special < 0x20 {
				want = at
			}
			if got := plainPrefix(b); got != want {
				t.Fatalf("byte %#x at %d: got %d", special, at, got)
			}
		}
	}
}

func TestScanDoesNotAllocate(t *testing.T) { //nolint:paralleltest // counts allocations
	body := []byte(`{"model":"a","stream":true,"messages":[{"role":"user","content":"` + strings.Repeat("x", 1000) + `"}],"stop":["a"]}`)
	allocations := testing.AllocsPerRun(100, func() {
		if _, err := ScanRequest(body); err != nil {
			t.Fatal(err)
		}
	})
	if allocations > 2 { // the model's name is one
		t.Errorf("%v allocations", allocations)
	}
}

// member is a top-level member as encoding/json sees it.
type member struct {
	key   string
	value json.RawMessage
}

func membersOf(body []byte) (members []member, object bool) {
	d := json.NewDecoder(bytes.NewReader(body))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil, false
	}
	for d.More() {
		key, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return nil, false
		}
		members = append(members, member{key.(string), value})
	}
	return members, true
}

// FuzzScanRequest holds the scanner against encoding/json.
func FuzzScanRequest(f *testing.F) {
	for _, s := range []string{
		`{"model":"a"}`, `{"model":"a","stream":true}`, `{"model":"a","Model":"b"}`, `{"mod\u0065l":"\ud83d\ude00\ud800"}`,
		`{"stream":true,"stream_options":{"include_usage":false,"x":[]},"model":"a","messages":[]}`,
		`{"model":"a","n":-0.5e-7,"x":[true,false,null,{"":""}]}`, `{"model":"a"}x`, `{"model":"\u0000\\\/\b"}`, `{"\xff":1,"model":"é"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if bytes.Count(body, []byte("["))+bytes.Count(body, []byte("{")) > maxDepth {
			return
		}
		r, err := ScanRequest(body)
		members, object := membersOf(body)
		valid := json.Valid(body) && object
		if !valid {
			if err == nil {
				t.Fatalf("accepted %q", body)
			}
			return
		}
		var known *RequestError
		if err != nil {
			if !errors.As(err, &known) || known.Code == "invalid_json" {
				t.Fatalf("refused %q: %v", body, err)
			}
			return
		}
		checkMembers(t, body, r, members)
		if r.HasModel {
			checkPatched(t, body, r)
		}
	})
}

func checkMembers(t *testing.T, body []byte, r Request, members []member) {
	t.Helper()
	models := 0
	for _, m := range members {
		switch {
		case strings.EqualFold(m.key, "model"):
			models++
			var s string
			if m.key != "model" || json.Unmarshal(m.value, &s) != nil || s != r.Model {
				t.Fatalf("%q: model %q, found %q in %q", body, r.Model, m.value, m.key)
			}
		case m.key == "stream" && r.Stream != (string(m.value) == "true"):
			t.Fatalf("%q: stream %t", body, r.Stream)
		case m.key == "messages":
			var list []json.RawMessage
			if json.Unmarshal(m.value, &list) == nil && string(m.value) != "null" && (r.Messages == Filled) != (len(list) > 0) {
				t.Fatalf("%q: messages %d", body, r.Messages)
			}
		}
	}
	if (models == 1) != r.HasModel {
		t.Fatalf("%q: %d models", body, models)
	}
}

// checkPatched: the patched body means the same but for what was patched.
func checkPatched(t *testing.T, body []byte, r Request) {
	t.Helper()
	const upstream = "up\"\\stream\n/é"
	out := patched(t, body, r, upstream, true)
	before, after := map[string]any{}, map[string]any{}
	if err := json.Unmarshal(out, &after); err != nil {
		t.Fatalf("%q became %q: %v", body, out, err)
	}
	if err := json.Unmarshal(body, &before); err != nil {
		t.Fatal(err)
	}
	if after["model"] != upstream {
		t.Fatalf("%q became %q", body, out)
	}
	if r.Stream {
		options, _ := after["stream_options"].(map[string]any)
		if options["include_usage"] != true {
			t.Fatalf("%q became %q", body, out)
		}
		delete(options, "include_usage")
		old, _ := before["stream_options"].(map[string]any)
		delete(old, "include_usage")
		if len(old) != len(options) || len(old) > 0 && !reflect.DeepEqual(old, options) {
			t.Fatalf("%q became %q", body, out)
		}
		delete(before, "stream_options")
		delete(after, "stream_options")
	}
	delete(before, "model")
	delete(after, "model")
	if !reflect.DeepEqual(before, after) {
		t.Fatalf("%q became %q", body, out)
	}
}
