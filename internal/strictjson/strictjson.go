// Package strictjson reads one JSON object into a Go struct and refuses
// everything that two readers could understand differently: repeated keys (in
// any letter case), unknown keys, null, trailing data, invalid UTF-8 and
// numbers that are not exact.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Error tells what is wrong and where; Field is a JSON path such as
// "model.replicas.min", empty where the document as a whole is meant.
type Error struct {
	Field   string
	Message string
}

func (e *Error) Error() string { return e.Message }

const maxDepth = 32

// Decode reads data into out, a pointer to a struct with json tags. A field
// that is neither a pointer nor marked omitempty is required. Every failure
// is an *Error; out is only written on success.
func Decode(data []byte, out any) error {
	if !utf8.Valid(data) {
		return &Error{"", "the body is not valid UTF-8"}
	}
	if at := loneSurrogate(data); at >= 0 {
		return &Error{"", fmt.Sprintf("the escape %s stands for half a character: write the character itself, or both halves", clip(string(data[at:at+6])))}
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	w := walker{dec: dec}
	if err := w.value(reflect.TypeOf(out).Elem(), "", 0); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return &Error{"", "the body continues after the JSON object"}
	}
	if err := json.Unmarshal(data, out); err != nil {
		return &Error{"", "the body is not the expected JSON: " + err.Error()}
	}
	return nil
}

// walker follows the tokens beside the Go type that they will fill.
type walker struct{ dec *json.Decoder }

func (w walker) value(t reflect.Type, path string, depth int) error {
	if depth > maxDepth {
		return &Error{path, fmt.Sprintf("%s is nested deeper than %d levels", name(path), maxDepth)}
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	tok, err := w.dec.Token()
	if err != nil {
		return &Error{path, "the body is not valid JSON: " + syntax(err)}
	}
	switch t.Kind() {
	case reflect.Struct:
		return w.object(tok, t, path, depth)
	case reflect.Map:
		return w.mapping(tok, t, path, depth)
	case reflect.Slice:
		return w.array(tok, t, path, depth)
	case reflect.Interface:
		return w.anything(tok, t, path, depth)
	default:
		return scalar(tok, t, path)
	}
}

func (w walker) object(tok json.Token, t reflect.Type, path string, depth int) error {
	if tok != json.Delim('{') {
		return mismatch(path, "an object", tok)
	}
	fields := fieldsOf(t)
	seen := map[string]string{}
	for w.dec.More() {
		key, err := w.key(path, seen)
		if err != nil {
			return err
		}
		f, known := fields[key]
		if !known {
			return &Error{join(path, key), fmt.Sprintf("unknown key %q%s", key, hint(fields, key))}
		}
		if err := w.value(f.typ, join(path, key), depth+1); err != nil {
			return err
		}
	}
	if err := w.end(path); err != nil {
		return err
	}
	for key, f := range fields {
		if _, ok := seen[strings.ToLower(key)]; f.required && !ok {
			return &Error{join(path, key), join(path, key) + " is required"}
		}
	}
	return nil
}

func (w walker) mapping(tok json.Token, t reflect.Type, path string, depth int) error {
	if tok != json.Delim('{') {
		return mismatch(path, "an object", tok)
	}
	seen := map[string]string{}
	for w.dec.More() {
		key, err := w.key(path, seen)
		if err != nil {
			return err
		}
		if err := w.value(t.Elem(), join(path, key), depth+1); err != nil {
			return err
		}
	}
	return w.end(path)
}

// key reads an object key and refuses one that was there before in any letter case.
func (w walker) key(path string, seen map[string]string) (string, error) {
	tok, err := w.dec.Token()
	if err != nil {
		return "", &Error{path, "the body is not valid JSON: " + syntax(err)}
	}
	key, _ := tok.(string)
	if first, dup := seen[strings.ToLower(key)]; dup {
		return "", &Error{join(path, key), fmt.Sprintf("key %q is repeated (first as %q): send it once", join(path, key), first)}
	}
	seen[strings.ToLower(key)] = key
	return key, nil
}

func (w walker) array(tok json.Token, t reflect.Type, path string, depth int) error {
	if tok != json.Delim('[') {
		return mismatch(path, "an array", tok)
	}
	for i := 0; w.dec.More(); i++ {
		if err := w.value(t.Elem(), fmt.Sprintf("%s[%d]", path, i), depth+1); err != nil {
			return err
		}
	}
	return w.end(path)
}

// anything walks a value of a free-form field for its keys' sake.
func (w walker) anything(tok json.Token, t reflect.Type, path string, depth int) error {
	switch tok {
	case json.Delim('{'):
		return w.mapping(tok, reflect.MapOf(reflect.TypeFor[string](), t), path, depth)
	case json.Delim('['):
		return w.array(tok, reflect.SliceOf(t), path, depth)
	case nil:
		return mismatch(path, "a value", tok)
	default:
		return nil
	}
}

func (w walker) end(path string) error {
	if _, err := w.dec.Token(); err != nil {
		return &Error{path, "the body is not valid JSON: " + syntax(err)}
	}
	return nil
}

func scalar(tok json.Token, t reflect.Type, path string) error {
	switch t.Kind() {
	case reflect.String:
		if _, ok := tok.(string); !ok {
			return mismatch(path, "a string", tok)
		}
	case reflect.Bool:
		if _, ok := tok.(bool); !ok {
			return mismatch(path, "true or false", tok)
		}
	case reflect.Float64:
		if _, ok := tok.(json.Number); !ok {
			return mismatch(path, "a number", tok)
		}
	default:
		n, ok := tok.(json.Number)
		if !ok {
			return mismatch(path, "an integer", tok)
		}
		if _, err := strconv.ParseInt(n.String(), 10, t.Bits()); err != nil || n.String() == "-0" {
			return mismatch(path, "an integer", tok)
		}
	}
	return nil
}

type field struct {
	typ      reflect.Type
	required bool
}

func fieldsOf(t reflect.Type) map[string]field {
	fields := make(map[string]field, t.NumField())
	for i := range t.NumField() {
		f := t.Field(i)
		key, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if key == "" || key == "-" || !f.IsExported() {
			continue
		}
		optional := f.Type.Kind() == reflect.Pointer || strings.Contains(opts, "omitempty") || strings.Contains(opts, "omitzero")
		fields[key] = field{f.Type, !optional}
	}
	return fields
}

func hint(fields map[string]field, key string) string {
	for known := range fields {
		if strings.EqualFold(known, key) {
			return fmt.Sprintf("; keys are case-sensitive: write %q", known)
		}
	}
	return ""
}

func mismatch(path, want string, got json.Token) error {
	found := "an object"
	switch v := got.(type) {
	case nil:
		found = "null"
	case string:
		found = strconv.Quote(clip(v))
	case bool:
		found = strconv.FormatBool(v)
	case json.Number:
		found = clip(v.String())
	case json.Delim:
		if v == '[' {
			found = "an array"
		}
	}
	return &Error{path, fmt.Sprintf("%s must be %s; got %s", name(path), want, found)}
}

func name(path string) string {
	if path == "" {
		return "the body"
	}
	return path
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func syntax(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it ends too early"
	}
	return err.Error()
}

func clip(s string) string {
	if len(s) <= 64 {
		return s
	}
	return strings.ToValidUTF8(s[:64], "") + "…"
}
