package delivery

import (
	"regexp"
	"testing"

	"pgregory.net/rapid"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/modelspec"
)

var label = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// C003: names that only differ in what Kubernetes does not allow.
func TestObjectNamesDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]budget.Ref{}
	for _, ref := range []budget.Ref{
		{Tenant: "t", ID: "a-b"}, {Tenant: "t", ID: "a_b"}, {Tenant: "t", ID: "a.b"}, {Tenant: "t", ID: "A-b"},
		{Tenant: "t", ID: "a..b"}, {Tenant: "t", ID: "9a"}, {Tenant: "t-1", ID: "x"}, {Tenant: "t", ID: "1-x"},
		{Tenant: "t", ID: "job-a"}, {Tenant: "t", ID: "JOB-A"}, {Tenant: "u", ID: "job-a"},
	} {
		name := ObjectName(ref)
		if other, taken := seen[name]; taken {
			t.Errorf("%+v and %+v are both called %s", ref, other, name)
		}
		seen[name] = ref
	}
}

func TestObjectNamesAreLabels(t *testing.T) {
	t.Parallel()
	valid := rapid.StringMatching(`[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?`)
	rapid.Check(t, func(t *rapid.T) {
		ref := budget.Ref{Tenant: valid.Draw(t, "tenant"), ID: valid.Draw(t, "id")}
		if !modelspec.ValidName(ref.ID) {
			t.Skip("too long")
		}
		name := ObjectName(ref)
		if len(name) > 63 || !label.MatchString(name) || name != ObjectName(ref) {
			t.Fatalf("%+v is called %q", ref, name)
		}
		if swapped := ObjectName(budget.Ref{Tenant: ref.ID, ID: ref.Tenant}); swapped == name && ref.ID != ref.Tenant {
			t.Fatalf("%+v swapped has the same name", ref)
		}
	})
}
