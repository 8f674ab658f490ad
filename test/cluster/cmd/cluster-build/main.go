// Command cluster-build builds the programs of the test cluster that this
// machine does not have, into the cache that scripts share. Arguments name
// recipes; without any, all are built but those that nothing needs unless it is
// asked for.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"modeldock.io/test/cluster/binaries"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	source := flag.String("source", ".", "folder with one folder per recipe")
	flag.Parse()
	cache, err := binaries.CacheDir()
	if err != nil {
		return err
	}
	recipes, err := chosen(flag.Args())
	if err != nil {
		return err
	}
	builder := binaries.Builder{Source: *source, Cache: cache, Log: os.Stdout, Now: time.Now}
	return builder.Build(ctx, recipes)
}

func chosen(names []string) ([]binaries.Recipe, error) {
	var known []string
	var recipes []binaries.Recipe
	for _, r := range binaries.Recipes() {
		known = append(known, r.Name)
		if slices.Contains(names, r.Name) || len(names) == 0 && !r.OnlyByName {
			recipes = append(recipes, r)
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("there is no recipe %s; there are %s", name, strings.Join(known, ", "))
		}
	}
	return recipes, nil
}
