package sqlledger_test

import (
	"flag"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	// The default of a flag that is given on the command line stays overridable.
	if f := flag.Lookup("rapid.checks"); f != nil {
		if err := f.Value.Set(checks); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	stopServer()
	os.Exit(code)
}
