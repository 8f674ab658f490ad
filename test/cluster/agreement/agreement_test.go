//go:build cluster

package agreement

import (
	"testing"

	"modeldock.io/test/cluster"
	"modeldock.io/test/cluster/dock"
	"modeldock.io/test/cluster/oncluster"
	"modeldock.io/test/mariadb"
	"modeldock.io/test/onemachine"
)

// TestOnOneMachine: engines are processes of `modeldock up`.
func TestOnOneMachine(t *testing.T) {
	agree(t, onemachine.New(t), "machine")
}

// TestOnACluster: engines are Pods of a real Kubernetes.
func TestOnACluster(t *testing.T) {
	g := &oncluster.Ground{Dir: t.TempDir()}
	var err error
	if g.Binary, err = dock.Program(t.Context(), g.Dir); err != nil {
		t.Fatal(err)
	}
	g.Cluster = cluster.ForTest(t, cluster.Options{})
	if err = dock.LoadImage(t.Context(), g.Cluster, g.Binary); err != nil {
		t.Fatal(err)
	}
	if g.Database, err = mariadb.Start(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Database.Stop(); err != nil {
			t.Error(err)
		}
	})
	agree(t, g.Install(t, oncluster.Caps{Tenant: mostAtOnce, Pool: mostAtOnce}), "cluster")
}
