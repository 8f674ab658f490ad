package operator

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"
)

// leaves lists the paths to every declared value.
func leaves(v any, at []any) [][]any {
	var out [][]any
	switch v := v.(type) {
	case map[string]any:
		for _, k := range sortedKeys(v) {
			out = append(out, leaves(v[k], append(at[:len(at):len(at)], k))...)
		}
	case []any:
		for i := range v {
			out = append(out, leaves(v[i], append(at[:len(at):len(at)], i))...)
		}
	default:
		out = append(out, at)
	}
	return out
}

// set changes the value at a path to another of its type.
func set(v any, path []any) {
	for len(path) > 1 {
		v = step(v, path[0])
		path = path[1:]
	}
	other := func(old any) any {
		switch old := old.(type) {
		case string:
			return old + "-other"
		case int64:
			return old + 1
		case bool:
			return !old
		}
		panic(fmt.Sprintf("no other value for %T", old))
	}
	switch key := path[0].(type) {
	case string:
		m := v.(map[string]any)
		m[key] = other(m[key])
	case int:
		l := v.([]any)
		l[key] = other(l[key])
	}
}

func step(v, key any) any {
	if k, ok := key.(string); ok {
		return v.(map[string]any)[k]
	}
	return v.([]any)[key.(int)]
}

// Every declared value is compared, wherever it stands; what is added beside
// the declared ones is not.
func TestDriftProperties(t *testing.T) {
	t.Parallel()
	declare := declared(t, newService(), options()).Deployment
	paths := leaves(declare["spec"], nil)
	if len(paths) < 40 {
		t.Fatalf("only %d values are declared", len(paths))
	}
	rapid.Check(t, func(rt *rapid.T) {
		live := runtime.DeepCopyJSON(declare)
		spec := live["spec"].(map[string]any)
		spec["theirs"] = "x"
		container := spec["template"].(map[string]any)["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
		env := container["env"].([]any)
		container["env"] = append([]any{map[string]any{"name": "THEIRS", "value": "x"}}, env...) // before ours
		if at := differs(declare, live, ""); at != "" {
			rt.Fatalf("%s counts as a difference, though it was only added to", at)
		}
		live = runtime.DeepCopyJSON(declare)
		path := rapid.SampledFrom(paths).Draw(rt, "path")
		set(live["spec"], path)
		if at := differs(declare, live, ""); at == "" {
			rt.Fatalf("spec.%s changed and nothing was noticed", strings.Trim(fmt.Sprint(path), "[]"))
		}
	})
}

// The API server leaves out what is false, 0 or empty.
func TestLeftOutIsZero(t *testing.T) {
	t.Parallel()
	declare := map[string]any{"a": false, "b": int64(0), "c": "", "d": true}
	if at := differs(declare, map[string]any{"d": true}, "x"); at != "" {
		t.Errorf("%s counts as a difference", at)
	}
	if at := differs(declare, map[string]any{}, "x"); at != "x.d" {
		t.Errorf("the difference is %q, want x.d", at)
	}
}

// A label more in a selector is no addition: nothing is selected any more.
func TestSelectorsAreComparedWhole(t *testing.T) {
	t.Parallel()
	declare := declared(t, newService(), options()).Service
	live := runtime.DeepCopyJSON(declare)
	if at := differs(declare, live, ""); at != "" {
		t.Errorf("%s counts as a difference", at)
	}
	live["spec"].(map[string]any)["selector"].(map[string]any)["theirs"] = "x"
	if at := differs(declare, live, ""); at != ".spec.selector" {
		t.Errorf("the difference is %q, want .spec.selector", at)
	}
}
