package cluster

import "testing"

// ForTest starts a cluster for one test, which ends with it and tells its logs
// if the test failed.
func ForTest(t testing.TB, o Options) *Cluster {
	t.Helper()
	c, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Logs())
		}
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}
