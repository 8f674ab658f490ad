package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"modeldock.io/test/cluster"
	"modeldock.io/test/cluster/dock"
)

// reportsFD is the pipe to `up`, which has started this process.
const reportsFD = 3

// supervise runs the cluster until a signal ends it.
func supervise(ctx context.Context, s settings) error {
	reports := os.NewFile(reportsFD, "reports")
	if reports == nil {
		return errors.New("supervise is started by up alone")
	}
	syscall.CloseOnExec(reportsFD) // else every component held it open
	s.options.Log = textLog(os.Stderr, patient{reports})
	c, err := cluster.Start(ctx, s.options)
	stop := func() error { return nil }
	if err == nil {
		stop, err = install(ctx, c, s)
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}
	if err != nil {
		_, _ = fmt.Fprintln(reports, err) // it is in the log, too
		return err
	}
	if _, err := fmt.Fprintln(reports, readyLine); err != nil {
		return errors.Join(fmt.Errorf("report to the terminal: %w", err), stop(), c.Stop())
	}
	_ = reports.Close() // nothing more is said
	<-ctx.Done()
	return errors.Join(stop(), c.Stop())
}

// install puts on the cluster what a person asked for, in this order: images,
// manifests, ModelDock. stop ends what runs beside the cluster.
func install(ctx context.Context, c *cluster.Cluster, s settings) (stop func() error, err error) {
	// kubectl stands in the folder so that its path is short.
	link := filepath.Join(c.Dir, "kubectl")
	if err := os.RemoveAll(link); err != nil {
		return nil, fmt.Errorf("replace the link to kubectl: %w", err)
	}
	if err := os.Symlink(c.KubectlPath(), link); err != nil {
		return nil, fmt.Errorf("link kubectl: %w", err)
	}
	for _, image := range s.images {
		name, program, ok := strings.Cut(image, "=")
		if !ok {
			return nil, fmt.Errorf("load the image %q: want NAME=PROGRAM", image)
		}
		inside := "/" + filepath.Base(program)
		if err := c.LoadImage(ctx, cluster.Image{Name: name, Files: map[string]string{inside: program}, Entrypoint: []string{inside}}); err != nil {
			return nil, err
		}
	}
	for _, file := range s.manifests {
		manifests, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read what is to be applied: %w", err)
		}
		if err := c.Apply(ctx, string(manifests)); err != nil {
			return nil, fmt.Errorf("apply %s: %w", file, err)
		}
	}
	if s.modeldock == "" {
		return func() error { return nil }, nil
	}
	var cards *dock.Cards
	stopCards := func() error { return nil }
	if s.gpu != noCards {
		s.options.Log.Info("starting agents with simulated cards", "cards", s.cards, "delivered by", s.gpu)
		cards, err = dock.StartCards(ctx, dock.CardsOptions{Cluster: c, Binary: s.modeldock, Scheduler: s.scheduler, Dir: c.Dir, Path: s.gpu, Cards: s.cards})
		if err != nil {
			return nil, fmt.Errorf("give the nodes cards: %w", err)
		}
		stopCards = cards.Stop
	}
	s.options.Log.Info("starting ModelDock", "program", s.modeldock)
	d, err := dock.Start(ctx, dock.Options{Cluster: c, Binary: s.modeldock, Dir: c.Dir, Cards: cards})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("put ModelDock on the cluster: %w", err), stopCards())
	}
	return func() error { return errors.Join(d.Stop(), stopCards()) }, nil
}

// patient writes for as long as somebody reads: a closed terminal is no reason
// to lose the log.
type patient struct{ to io.Writer }

func (p patient) Write(b []byte) (int, error) {
	_, _ = p.to.Write(b)
	return len(b), nil
}
