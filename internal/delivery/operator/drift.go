package operator

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// drift names the first declared field that a live child has otherwise, or ""
// where the child is as declared. Fields that are not declared belong to the
// API server's defaults or to somebody else and do not count, so an unchanged
// child is recognised without asking the API server to apply it again.
func drift(declared, live map[string]any) string {
	for _, key := range sortedKeys(declared) {
		if key == "apiVersion" || key == "kind" { // typed objects do not carry them
			continue
		}
		if at := differs(declared[key], live[key], key); at != "" {
			return at
		}
	}
	return ""
}

func differs(want, have any, at string) string {
	switch want := want.(type) {
	case map[string]any:
		have, _ := have.(map[string]any)
		if whole(at) && len(have) > len(want) {
			return at
		}
		for _, key := range sortedKeys(want) {
			if found := differs(want[key], have[key], at+"."+key); found != "" {
				return found
			}
		}
		return ""
	case []any:
		return listDiffers(want, have, at)
	}
	if reflect.DeepEqual(want, have) || (have == nil && isZero(want)) {
		return ""
	}
	return at
}

// whole reports whether a map means something else with anything added to it,
// and is replaced as a whole by an apply: one more label in a Service's selector
// leaves it without endpoints.
func whole(at string) bool { return strings.HasSuffix(at, "spec.selector") }

// listDiffers compares lists as server-side apply merges them: those with a
// key entry by entry in any order, the others whole.
func listDiffers(want []any, have any, at string) string {
	list, _ := have.([]any)
	key, keyed := mergeKey(at)
	if !keyed {
		if len(want) != len(list) {
			return at
		}
		for i := range want {
			if found := differs(want[i], list[i], fmt.Sprintf("%s[%d]", at, i)); found != "" {
				return found
			}
		}
		return ""
	}
	for _, entry := range want {
		name := entry.(map[string]any)[key]
		i := slices.IndexFunc(list, func(e any) bool {
			m, ok := e.(map[string]any)
			return ok && reflect.DeepEqual(m[key], name)
		})
		place := fmt.Sprintf("%s[%v]", at, name)
		if i < 0 {
			return place
		}
		if found := differs(entry, list[i], place); found != "" {
			return found
		}
	}
	return ""
}

// mergeKey is the key of a list that the API merges by entries.
func mergeKey(at string) (string, bool) {
	switch at[strings.LastIndex(at, ".")+1:] {
	case "containers", "env", "volumes":
		return "name", true
	case "volumeMounts":
		return "mountPath", true
	case "ownerReferences":
		return "uid", true
	case "ports":
		if strings.Contains(at, "containers") {
			return "containerPort", true
		}
		return "port", true
	}
	return "", false
}

// isZero tells a declared "false" or "0", which the API server leaves out.
func isZero(v any) bool {
	return v == nil || reflect.ValueOf(v).IsZero()
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
