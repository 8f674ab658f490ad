//go:build cluster

package oncluster

import (
	"testing"

	"modeldock.io/test/scenario"
)

// notHere are the stories that are about something else than a cluster has.
func notHere() map[string]string {
	return map[string]string{
		"NoCardFits": "it is about the 24 GiB of the demonstration's card; the nodes here have no cards",
	}
}

func TestStories(t *testing.T) {
	t.Parallel()
	for name, story := range scenario.Stories() {
		if notHere()[name] != "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(t, ground.Install(t, Caps{}))
		})
	}
}
