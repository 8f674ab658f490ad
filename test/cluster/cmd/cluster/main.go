// Command cluster starts and stops a Kubernetes on this machine for a person;
// scripts/cluster.sh builds and calls it. A supervisor process stays behind:
// it owns the cluster, and everything ends with it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"modeldock.io/test/cluster"
	"modeldock.io/test/cluster/dock"
)

const usage = `usage: cluster.sh up     [--dir DIR] [--nodes N] [--simulated N] [--audit] [--bare]
                         [--gpu device-plugin|dra|none] [--cards 2x24576] [--image NAME=PROGRAM]… [--manifest FILE]…
       cluster.sh down   [--dir DIR]
       cluster.sh status [--dir DIR]
       cluster.sh free   gives back what clusters held whose process was killed`

// noCards leaves models without cards.
const noCards = "none"

// errNotRunning makes status end with 3, as service managers do.
var errNotRunning = errors.New("no cluster runs")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := run(ctx, os.Args[1:]); {
	case errors.Is(err, errNotRunning):
		fmt.Println(err)
		os.Exit(3)
	case err != nil:
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// settings are the flags of all verbs.
type settings struct {
	dir       string
	options   cluster.Options
	images    list
	manifests list
	modeldock string // the program to put on it; empty: none
	scheduler string // modeldock-scheduler
	gpu       string // how models get cards
	cards     string // of every real node
	bare      bool
}

// list is a flag that may be given several times.
type list []string

func (l *list) String() string     { return strings.Join(*l, ", ") }
func (l *list) Set(v string) error { *l = append(*l, v); return nil }

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	var s settings
	flags := flag.NewFlagSet("cluster", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&s.dir, "dir", "data/cluster", "folder of the cluster")
	flags.IntVar(&s.options.Nodes, "nodes", 1, "real nodes")
	flags.IntVar(&s.options.Simulated, "simulated", 0, "simulated nodes")
	flags.BoolVar(&s.options.AuditLog, "audit", false, "write down every request to the API server")
	flags.StringVar(&s.modeldock, "modeldock", "", "the modeldock program to put on the cluster")
	flags.StringVar(&s.scheduler, "scheduler", "", "the modeldock-scheduler program")
	flags.StringVar(&s.gpu, "gpu", "", "how models get simulated cards: device-plugin, dra or none")
	flags.StringVar(&s.cards, "cards", "2x24576", "simulated cards of every real node")
	flags.BoolVar(&s.bare, "bare", false, "Kubernetes alone, without ModelDock")
	flags.Var(&s.images, "image", "image to load: NAME=PROGRAM")
	flags.Var(&s.manifests, "manifest", "file to apply")
	if err := flags.Parse(args[1:]); err != nil || flags.NArg() > 0 {
		return errors.Join(err, errors.New(usage))
	}
	if s.options.Nodes == 0 {
		s.options.ControlPlaneOnly = true
	}
	s.options.Dir = s.dir
	if s.bare {
		s.modeldock = ""
	}
	if s.gpu == "" { // as far as nodes and programs are there for it
		s.gpu = dock.DevicePlugin
		if s.options.ControlPlaneOnly || s.scheduler == "" {
			s.gpu = noCards
		}
	}
	if !slices.Contains([]string{dock.DevicePlugin, dock.DRA, noCards}, s.gpu) {
		return fmt.Errorf("--gpu must be %s, %s or %s; got %q", dock.DevicePlugin, dock.DRA, noCards, s.gpu)
	}
	switch args[0] {
	case "up":
		return up(ctx, s, args[1:])
	case "supervise":
		return supervise(ctx, s)
	case "down":
		return down(ctx, s.dir)
	case "status":
		return status(s.dir)
	case "free":
		return cluster.CleanUp(ctx)
	}
	return errors.New(usage)
}

// textLog writes messages for a person to all of the given places.
func textLog(to ...io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(io.MultiWriter(to...), &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}}))
}
