// Command modeldock is the platform in one binary: `modeldock up` runs it on
// one machine, every other verb is a client of its management API.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"modeldock.io/internal/delivery/engine/simulated"
	"modeldock.io/internal/delivery/local/supervise"
)

func main() {
	// Two entry points for children of `up`, kept away from the command tree:
	// they start fast and parse their own arguments.
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "supervise":
			os.Exit(supervise.Main(os.Args[2:]))
		case "engine-simulated":
			os.Exit(simulated.Main(os.Args[2:]))
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}
