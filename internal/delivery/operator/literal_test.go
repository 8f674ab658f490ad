package operator

import (
	"slices"
	"testing"

	"modeldock.io/api/v1alpha1"
)

// expanded does what the kubelet does to a container's arguments: $$ is $, and
// $(NAME) the variable.
func expanded(s, value string) string {
	var out []byte
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] != '$' || i+1 == len(s):
			out = append(out, s[i])
		case s[i+1] == '$':
			out = append(out, '$')
			i++
		case s[i+1] == '(':
			for i < len(s) && s[i] != ')' {
				i++
			}
			out = append(out, value...)
		default:
			out = append(out, s[i])
		}
	}
	return string(out)
}

// Whatever a tenant writes comes to its engine as written.
func TestTheKubeletExpandsNoTenantsWords(t *testing.T) {
	t.Parallel()
	words := []string{"$(HOME)", "$$(HOME)", "$$$(HOME)", "$$", "$", "a$b", "${X}", "$(", "$${PORT}", "$${GPU_UUID}"}
	want := slices.Clone(words)
	want[8], want[9] = "$8000", "$card"
	o := options()
	o.GPU = GPU{Mode: GPUDevicePlugin, SchedulerName: "gpu"}.withDefaults()
	m := newService()
	m.Spec.Engine = v1alpha1.Engine{Kind: "custom", Image: "x", Command: []string{"srv"}, Args: words}
	_, c := podOfService(t, m, o)
	for i, arg := range c.Args {
		if got := expanded(arg, "card"); got != want[i] {
			t.Errorf("%q is told the kubelet as %q and comes as %q, want %q", words[i], arg, got, want[i])
		}
	}
	if len(c.Args) != len(words) {
		t.Errorf("arguments %q", c.Args)
	}
}
