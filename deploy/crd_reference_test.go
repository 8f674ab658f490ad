package deploy

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// crdReference is made from the custom resource: MODELDOCK_WRITE_DOCS=1 go test
// -run Reference ./deploy
const crdReference = "../docs/modelservice.md"

// fieldRows are a schema's fields by their paths.
func fieldRows(path string, schema map[string]any) (rows []string) {
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		field, _ := properties[name].(map[string]any)
		kind := fmt.Sprint(field["type"])
		inner := field
		if items, ok := field["items"].(map[string]any); ok {
			kind, inner = "list of "+fmt.Sprint(items["type"]), items
		}
		if field["x-kubernetes-int-or-string"] == true {
			kind = "integer or string"
		}
		if enum, ok := field["enum"].([]any); ok {
			var words []string
			for _, w := range enum {
				words = append(words, fmt.Sprintf("`%v`", w))
			}
			kind = strings.Join(words, ", ")
		}
		if value, ok := field["default"]; ok {
			kind += fmt.Sprintf(", default `%v`", value)
		}
		text, _ := field["description"].(string)
		rows = append(rows, fmt.Sprintf("| `%s%s` | %s | %s |", path, name, kind, strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)))
		rows = append(rows, fieldRows(path+name+".", inner)...)
	}
	return rows
}

// Every field of the custom resource is documented, as it is in the code.
func TestModelServiceReferenceIsTrue(t *testing.T) {
	t.Parallel()
	text, err := CRDs.ReadFile("charts/modeldock/crds/modeldock.io_modelservices.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Name   string
				Schema struct {
					OpenAPIV3Schema struct{ Properties map[string]map[string]any }
				}
			}
		}
	}
	if err := yaml.Unmarshal(text, &crd); err != nil || len(crd.Spec.Versions) != 1 {
		t.Fatalf("%d versions, %v", len(crd.Spec.Versions), err)
	}
	v := crd.Spec.Versions[0]
	want := "# ModelService, " + v.Name + "\n\n<!-- Made from the code by `make reference`; a test compares them. -->\n\n" +
		"The ledger's deliveries write these objects, and nobody else needs to. What their conditions mean is in [reference.md](reference.md).\n"
	for _, part := range []string{"spec", "status"} {
		rows := fieldRows("", v.Schema.OpenAPIV3Schema.Properties[part])
		if len(rows) < 10 {
			t.Fatalf("%s has only %d fields", part, len(rows))
		}
		want += "\n## " + part + "\n\n| field | type | meaning |\n|---|---|---|\n" + strings.Join(rows, "\n") + "\n"
	}
	if os.Getenv("MODELDOCK_WRITE_DOCS") != "" {
		if err := os.WriteFile(crdReference, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(crdReference)
	if err != nil || string(have) != want {
		t.Errorf("docs/modelservice.md is not what the code says (%v): run make reference", err)
	}
}
