package strictjson_test

import (
	"errors"
	"strings"
	"testing"

	"modeldock.io/internal/strictjson"
)

type inner struct {
	Min *int `json:"min,omitempty"`
}

type document struct {
	ID    string             `json:"id"`
	Cost  int64              `json:"cost"`
	Inner *inner             `json:"inner,omitempty"`
	Env   *map[string]string `json:"env,omitempty"`
	Args  *[]string          `json:"args,omitempty"`
	On    *bool              `json:"on,omitempty"`
	Aim   inner              `json:"aim,omitzero"`
}

func TestRefusesWhatTwoReadersCouldReadDifferently(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, in, field, says string }{
		{"repeated key", `{"id":"a","cost":1,"cost":1000}`, "cost", "repeated"},
		{"repeated in another case", `{"id":"a","cost":1,"COST":2}`, "COST", "repeated"},
		{"repeated by escape", `{"id":"a","cost":1,"c\u006fst":2}`, "cost", "repeated"},
		{"repeated deep", `{"id":"a","cost":1,"inner":{"min":1,"min":2}}`, "inner.min", "repeated"},
		{"repeated in a map", `{"id":"a","cost":1,"env":{"A":"1","a":"2"}}`, "env.a", "repeated"},
		{"other case", `{"id":"a","Cost":1}`, "Cost", `write "cost"`},
		{"unknown", `{"id":"a","cost":1,"x":1}`, "x", "unknown key"},
		{"trailing", `{"id":"a","cost":1} {}`, "", "continues"},
		{"null", `{"id":"a","cost":null}`, "cost", "got null"},
		{"null optional", `{"id":"a","cost":1,"inner":null}`, "inner", "got null"},
		{"missing", `{"id":"a"}`, "cost", "required"},
		{"float", `{"id":"a","cost":1.5}`, "cost", "integer"},
		{"integral float", `{"id":"a","cost":10.0}`, "cost", "integer"},
		{"exponent", `{"id":"a","cost":1e1}`, "cost", "integer"},
		{"minus zero", `{"id":"a","cost":-0}`, "cost", "integer"},
		{"overflow", `{"id":"a","cost":9223372036854775808}`, "cost", "integer"},
		{"string for integer", `{"id":"a","cost":"10"}`, "cost", `got "10"`},
		{"NaN", `{"id":"a","cost":NaN}`, "cost", "JSON"},
		{"array body", `[]`, "", "an object"},
		{"empty body", ``, "", "too early"},
		{"bad UTF-8", "{\"id\":\"\xff\",\"cost\":1}", "", "UTF-8"},
		{"array element", `{"id":"a","cost":1,"args":["a",1]}`, "args[1]", "a string"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out document
			err := strictjson.Decode([]byte(c.in), &out)
			var se *strictjson.Error
			if !errors.As(err, &se) {
				t.Fatalf("Decode(%s) = %v; want a *strictjson.Error", c.in, err)
			}
			if se.Field != c.field || !strings.Contains(se.Message, c.says) {
				t.Errorf("got field %q, message %q; want field %q and %q", se.Field, se.Message, c.field, c.says)
			}
			if out.ID != "" || out.Cost != 0 {
				t.Errorf("the target was written: %+v", out)
			}
		})
	}
}

func TestReadsAValidDocument(t *testing.T) {
	t.Parallel()
	var out document
	in := ` { "cost" : 9007199254740993, "\u0069d":"s\u0031", "inner":{"min":0}, "env":{"A":"1"}, "args":[], "on":true } `
	if err := strictjson.Decode([]byte(in), &out); err != nil {
		t.Fatal(err)
	}
	if out.ID != "s1" || out.Cost != 9007199254740993 || *out.Inner.Min != 0 || (*out.Env)["A"] != "1" || !*out.On {
		t.Errorf("got %+v", out)
	}
}
