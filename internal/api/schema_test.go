package api

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var wireTime = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`)

// description is api/openapi.yaml as a tree.
type description map[string]any

func readDescription(t *testing.T) description {
	t.Helper()
	data, err := os.ReadFile("../../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var d description
	if err := yaml.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// at walks the tree by keys; nil where there is nothing.
func at(node any, keys ...string) any {
	for _, k := range keys {
		m, ok := node.(map[string]any)
		if !ok {
			return nil
		}
		node = m[k]
	}
	return node
}

func (d description) resolve(node any) map[string]any {
	for {
		m, _ := node.(map[string]any)
		link, ok := m["$ref"].(string)
		if !ok {
			return m
		}
		node = at(map[string]any(d), strings.Split(strings.TrimPrefix(link, "#/"), "/")...)
	}
}

// mismatches tells where v is not what schema describes.
func (d description) mismatches(schema any, v any, path string) (out []string) {
	link, _ := at(schema, "$ref").(string)
	s := d.resolve(schema)
	bad := func(format string, args ...any) { out = append(out, path+": "+fmt.Sprintf(format, args...)) }
	if v == nil {
		if s["nullable"] != true {
			bad("is null")
		}
		return out
	}
	switch s["type"] {
	case "object":
		return d.objectMismatches(s, v, path)
	case "array":
		list, ok := v.([]any)
		if !ok {
			bad("is %T, want a list", v)
		}
		for i, item := range list {
			out = append(out, d.mismatches(s["items"], item, fmt.Sprintf("%s[%d]", path, i))...)
		}
	case "string":
		text, ok := v.(string)
		enum, closed := s["enum"].([]any)
		switch {
		case !ok:
			bad("is %T, want a string", v)
		case closed && !slices.Contains(enum, v):
			bad("%q is none of %v", text, enum)
		case strings.HasSuffix(link, "/Time") && !wireTime.MatchString(text):
			bad("%q is no time with six digits", text)
		}
	case "boolean":
		if _, ok := v.(bool); !ok {
			bad("is %T, want a boolean", v)
		}
	case "integer", "number":
		if _, ok := v.(float64); !ok {
			bad("is %T, want a number", v)
		}
	default:
		bad("has no type in the description")
	}
	return out
}

func (d description) objectMismatches(s map[string]any, v any, path string) (out []string) {
	object, ok := v.(map[string]any)
	if !ok {
		return []string{fmt.Sprintf("%s: is %T, want an object", path, v)}
	}
	required, _ := s["required"].([]any)
	for _, name := range required {
		if _, there := object[name.(string)]; !there {
			out = append(out, fmt.Sprintf("%s: %s is missing", path, name))
		}
	}
	for name, value := range object {
		field := at(s, "properties", name)
		switch {
		case field != nil:
			out = append(out, d.mismatches(field, value, path+"."+name)...)
		case s["additionalProperties"] == nil:
			out = append(out, fmt.Sprintf("%s: %s is not described", path, name))
		}
	}
	return out
}

// conforms checks a JSON answer against what the description says about the
// operation and the status.
func (d description) conforms(a answer, method, path string) {
	a.Helper()
	operation := at(map[string]any(d), "paths", path, strings.ToLower(method))
	response := at(operation, "responses", fmt.Sprint(a.status))
	if response == nil {
		if a.status < 400 {
			a.Errorf("%s %s answered %d, which is not described", method, path, a.status)
			return
		}
		response = at(operation, "responses", "default")
	}
	content, _ := d.resolve(response)["content"].(map[string]any)
	if content == nil {
		if len(a.body) > 0 {
			a.Errorf("%s %s answered %d with a body: %s", method, path, a.status, a.body)
		}
		return
	}
	for kind, media := range content {
		if !strings.HasPrefix(a.header.Get("Content-Type"), kind) {
			a.Errorf("%s %s answered %d as %q, want %s", method, path, a.status, a.header.Get("Content-Type"), kind)
		}
		if kind != "application/json" {
			continue
		}
		var v any
		if err := json.Unmarshal(a.body, &v); err != nil {
			a.Errorf("%s %s: %v", method, path, err)
		}
		for _, m := range d.mismatches(at(media, "schema"), v, "answer") {
			a.Errorf("%s %s: %d: %s", method, path, a.status, m)
		}
	}
}

// The check above can fail: it finds what is deliberately wrong.
func TestDescriptionFindsMismatches(t *testing.T) {
	t.Parallel()
	d := readDescription(t)
	schema := map[string]any{"$ref": "#/components/schemas/JournalEntry"}
	good := map[string]any{"revision": 1.0, "op": "reserve", "slots": 1.0, "pool": "default", "at": "2026-03-01T12:00:00.000000Z"}
	if out := d.mismatches(schema, good, ""); len(out) > 0 {
		t.Errorf("a right entry is refused: %v", out)
	}
	for field, value := range map[string]any{"op": "steal", "at": "2026-03-01T12:00:00Z", "slots": "1", "pool": nil, "colour": "red"} {
		bad := map[string]any{}
		for k, v := range good {
			bad[k] = v
		}
		bad[field] = value
		if out := d.mismatches(schema, bad, ""); len(out) != 1 {
			t.Errorf("%s=%v: found %v, want one mismatch", field, value, out)
		}
	}
	delete(good, "op")
	if out := d.mismatches(schema, good, ""); len(out) != 1 {
		t.Errorf("a missing field: found %v", out)
	}
}
