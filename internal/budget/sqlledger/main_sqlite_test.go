//go:build !mariadb

package sqlledger_test

// stopServer: without the tag mariadb no server is started.
func stopServer() {}
