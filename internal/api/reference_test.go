package api

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// apiReference is made from the description: MODELDOCK_WRITE_DOCS=1 go test
// -run Reference ./internal/api
const apiReference = "../../docs/api.md"

// reference writes every operation with its parameters and its answer.
func (d description) reference() string {
	var b strings.Builder
	b.WriteString("# Management API\n\n<!-- Made from api/openapi.yaml by `make reference`; a test compares them. -->\n\n" +
		"`api/openapi.yaml` has every field. Lists are `{\"items\":[…],\"next\":\"cursor or empty\"}`, errors `{\"error\":{\"code\",\"message\",\"field\"}}`. " +
		"Send `Authorization: Bearer mdk_…`; with an admin's or viewer's key, `?tenant=` says whose request is meant. Inference is another API: [reference.md](reference.md), `/v1`.\n")
	tags, _ := d["tags"].([]any)
	for _, tag := range tags {
		name, _ := at(tag, "name").(string)
		fmt.Fprintf(&b, "\n## %s\n\n| operation | parameters | answer |\n|---|---|---|\n", at(tag, "description"))
		for _, o := range d.operations() {
			op := at(map[string]any(d), "paths", o.route, strings.ToLower(o.method))
			if of, _ := at(op, "tags").([]any); len(of) != 1 || of[0] != name {
				continue
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", o, d.takes(o, op), d.answers(op))
		}
	}
	return b.String()
}

// takes are the parameters of an operation and the fields of its body.
func (d description) takes(o operation, op any) string {
	var all []string
	for _, q := range o.query {
		all = append(all, "`?"+q+"=`")
	}
	content, _ := d.resolve(at(op, "requestBody"))["content"].(map[string]any)
	for _, media := range content {
		properties, _ := d.resolve(at(media, "schema"))["properties"].(map[string]any)
		var fields []string
		for field := range properties {
			fields = append(fields, field)
		}
		slices.Sort(fields)
		if len(fields) == 0 {
			fields = []string{"…"}
		}
		all = append(all, "`{"+strings.Join(fields, ", ")+"}`")
	}
	return strings.Join(all, " ")
}

func (d description) answers(op any) string {
	text := ""
	responses, _ := at(op, "responses").(map[string]any)
	for _, status := range []string{"200", "201", "202", "204"} {
		if r := d.resolve(responses[status]); r != nil {
			text = fmt.Sprintf("%s: %s. ", status, strings.TrimSuffix(fmt.Sprint(r["description"]), "."))
		}
	}
	if more, ok := at(op, "description").(string); ok {
		text += strings.Join(strings.Fields(more), " ")
	}
	return strings.ReplaceAll(strings.TrimSpace(text), "|", `\|`)
}

// Every operation of the description is in the reference.
func TestAPIReferenceIsTrue(t *testing.T) {
	t.Parallel()
	d := readDescription(t)
	want := d.reference()
	for _, o := range d.operations() {
		if !strings.Contains(want, "| `"+o.String()+"` |") {
			t.Errorf("%s is not in the reference: give it a tag that is described", o)
		}
	}
	if os.Getenv("MODELDOCK_WRITE_DOCS") != "" {
		if err := os.WriteFile(apiReference, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(apiReference)
	if err != nil || string(have) != want {
		t.Errorf("docs/api.md is not what api/openapi.yaml says (%v): run make reference", err)
	}
}
