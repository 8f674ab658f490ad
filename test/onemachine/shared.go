package onemachine

import (
	"context"
	"slices"
	"strings"
	"testing"

	"modeldock.io/test/mariadb"
)

// NewShared starts a platform on a database of its own in server, with one
// controller beside it for every entry of parts, such as "api,admit,deliver".
// Each call of API names another of the processes that serve it.
func NewShared(t testing.TB, server *mariadb.Server, flags []string, parts ...string) *Machine {
	t.Helper()
	name, drop, err := server.Create(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := drop(); err != nil {
			t.Error(err)
		}
	})
	m := &Machine{dir: t.TempDir(), flags: append([]string{"--store", "mysql"}, flags...), dsn: server.DSN(name)}
	m.launch(t)
	for _, p := range parts {
		c := m.process(t, "controller", "--listen", "127.0.0.1:0", "--machine", m.Data(), "--parts", p)
		c.serves = slices.Contains(strings.Split(p, ","), "api")
		t.Cleanup(func() { c.Stop(t) })
		c.Start(t)
		m.controllers = append(m.controllers, c)
	}
	return m
}

// DSN names the shared database.
func (m *Machine) DSN() string { return m.dsn }

// Controllers are the processes beside `modeldock up`, in the order they were
// asked for.
func (m *Machine) Controllers() []*Process { return m.controllers }
