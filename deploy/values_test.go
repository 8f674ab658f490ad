package deploy

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"
)

const chart = "charts/modeldock/"

// free are the values that are Kubernetes' own shapes, or the user's names.
func free(path string) bool {
	return path == ".global" || slices.ContainsFunc([]string{"resources", "podAnnotations", "annotations", "nodeSelector", "labels"}, func(name string) bool {
		return len(path) > len(name) && path[len(path)-len(name)-1:] == "."+name
	})
}

// disagreements tells what values have and their schema does not, or the other
// way round, and where the schema would let a misspelt name pass.
func disagreements(path string, value, schema any) (found []string) {
	s, _ := schema.(map[string]any)
	v, isObject := value.(map[string]any)
	properties, _ := s["properties"].(map[string]any)
	switch {
	case free(path):
		if s["type"] != "object" {
			found = append(found, path+" is no object in the schema")
		}
		return found
	case !isObject:
		if s["type"] == nil && s["enum"] == nil && s["anyOf"] == nil {
			found = append(found, path+" may be anything")
		}
		return found
	case s["type"] != "object" || s["additionalProperties"] != false:
		found = append(found, path+" takes names that nobody knows")
	}
	names := slices.Sorted(maps.Keys(v))
	for name := range properties {
		if _, there := v[name]; !there && path+"."+name != ".global" {
			found = append(found, fmt.Sprintf("%s.%s is in the schema and has no default that explains it", path, name))
		}
	}
	for _, name := range names {
		if properties[name] == nil {
			found = append(found, fmt.Sprintf("%s.%s is not in the schema", path, name))
			continue
		}
		found = append(found, disagreements(path+"."+name, v[name], properties[name])...)
	}
	return found
}

// The schema knows every value of the chart and none beside, so that what is
// written wrongly is refused before anything is installed.
func TestValuesAndSchemaAgree(t *testing.T) {
	t.Parallel()
	var values, schema map[string]any
	text, err := os.ReadFile(chart + "values.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &values)
	}
	if err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile(chart + "values.schema.json"); err == nil {
		err = json.Unmarshal(text, &schema)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range disagreements("", values, schema) {
		t.Error(found)
	}
	// The comparison finds what is deliberately wrong.
	values["colour"] = "red"
	delete(values["gateway"].(map[string]any), "replicas")
	if found := disagreements("", values, schema); len(found) != 2 {
		t.Errorf("of two mistakes it finds %q", found)
	}
}
