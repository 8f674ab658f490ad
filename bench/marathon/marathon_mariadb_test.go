//go:build mariadb

package main

import "testing"

func TestMarathonOnMariaDB(t *testing.T) {
	t.Parallel()
	short(t, "mariadb", 10_000)
}
