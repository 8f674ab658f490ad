package local

import (
	"os"
	"testing"

	"modeldock.io/internal/delivery/engine/simulated"
	"modeldock.io/internal/delivery/local/supervise"
)

// The test binary is also the supervisor, the simulated engine and a whole
// ModelDock that can be killed, because all of them are subcommands of one
// binary in the product as well.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case supervise.Subcommand:
			os.Exit(supervise.Main(os.Args[2:]))
		case simulated.Subcommand:
			os.Exit(simulated.Main(os.Args[2:]))
		case childSubcommand:
			os.Exit(childMain(os.Args[2]))
		case grabSubcommand:
			os.Exit(grabMain(os.Args[2]))
		}
	}
	os.Exit(m.Run())
}
