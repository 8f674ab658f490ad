package app

import (
	"os"
	"testing"

	"modeldock.io/internal/delivery/engine/simulated"
	"modeldock.io/internal/delivery/local/supervise"
)

// crashSubcommand runs into an armed crash point.
const crashSubcommand = "crash"

// The test binary is also the supervisor and the simulated engine, as the
// product's one binary is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case supervise.Subcommand:
			os.Exit(supervise.Main(os.Args[2:]))
		case simulated.Subcommand:
			os.Exit(simulated.Main(os.Args[2:]))
		case leavingSubcommand:
			os.Exit(leavingMain(os.Args[2]))
		case crashSubcommand:
			var c crashPoint
			c.at("ack") // not armed
			armed := "credit"
			c.armed.Store(&armed)
			c.at("ack") // another point
			_, _ = os.Stdout.WriteString("alive until the point\n")
			c.at("credit")
			_, _ = os.Stdout.WriteString("alive after it\n")
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}
