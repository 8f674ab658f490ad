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
	if err == nil {
		err = install(ctx, c, s)
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}
	if err != nil {
		_, _ = fmt.Fprintln(reports, err) // it is in the log, too
		return err
	}
	if _, err := fmt.Fprintln(reports, readyLine); err != nil {
		return errors.Join(fmt.Errorf("report to the terminal: %w", err), c.Stop())
	}
	_ = reports.Close() // nothing more is said
	<-ctx.Done()
	return c.Stop()
}

// install puts on the cluster what a person asked for, in this order: images,
// then manifests. A whole product is put on it here.
func install(ctx context.Context, c *cluster.Cluster, s settings) error {
	// kubectl stands in the folder so that its path is short.
	link := filepath.Join(c.Dir, "kubectl")
	if err := os.RemoveAll(link); err != nil {
		return fmt.Errorf("replace the link to kubectl: %w", err)
	}
	if err := os.Symlink(c.KubectlPath(), link); err != nil {
		return fmt.Errorf("link kubectl: %w", err)
	}
	for _, image := range s.images {
		name, program, ok := strings.Cut(image, "=")
		if !ok {
			return fmt.Errorf("load the image %q: want NAME=PROGRAM", image)
		}
		inside := "/" + filepath.Base(program)
		if err := c.LoadImage(ctx, cluster.Image{Name: name, Files: map[string]string{inside: program}, Entrypoint: []string{inside}}); err != nil {
			return err
		}
	}
	for _, file := range s.manifests {
		manifests, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read what is to be applied: %w", err)
		}
		if err := c.Apply(ctx, string(manifests)); err != nil {
			return fmt.Errorf("apply %s: %w", file, err)
		}
	}
	return nil
}

// patient writes for as long as somebody reads: a closed terminal is no reason
// to lose the log.
type patient struct{ to io.Writer }

func (p patient) Write(b []byte) (int, error) {
	_, _ = p.to.Write(b)
	return len(b), nil
}
