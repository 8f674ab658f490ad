package device

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// Limits of following the reader.
const (
	// quietFor is how many intervals without a word make a driver count as one
	// that does not answer.
	quietFor     = 3
	restartPause = time.Second
	maxLine      = 4 << 20
)

// Follow gives what the cards say, over and over, until ctx ends: readings
// about every interval, and an error whenever none can be had, after which it
// tries again by itself. give is called from one goroutine.
func (i Inventory) Follow(ctx context.Context, every time.Duration, give func([]Card, error)) {
	if i.follow != nil {
		i.follow(ctx, every, give)
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ctx.Err() == nil {
		cards, err := i.Refresh(ctx)
		if ctx.Err() == nil {
			give(cards, err)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// followReader keeps one reader running that prints a line per reading:
// loading NVIDIA's library anew takes seconds on some machines.
func followReader(reader string) func(context.Context, time.Duration, func([]Card, error)) {
	return func(ctx context.Context, every time.Duration, give func([]Card, error)) {
		for ctx.Err() == nil {
			err := readLines(ctx, reader, every, give)
			if ctx.Err() != nil {
				return
			}
			give(nil, err)
			select {
			case <-ctx.Done():
			case <-time.After(restartPause):
			}
		}
	}
}

// readLines runs one reader until it ends, falls silent, or ctx ends. The
// reader ends by itself when its standard input does.
func readLines(ctx context.Context, reader string, every time.Duration, give func([]Card, error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// The first reading loads the library; only later ones have to be quick.
	silence := time.AfterFunc(readTimeout, func() {
		cancel(fmt.Errorf("%s does not answer any more: the driver hangs", reader))
	})
	defer silence.Stop()
	cmd := exec.CommandContext(ctx, reader, "--every", every.String())
	cmd.WaitDelay = time.Second
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("run %s: %w", reader, err)
	}
	defer func() { _ = stdin.Close() }()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("run %s: %w", reader, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run %s: %w", reader, err)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var cards []Card
		if err = json.Unmarshal(lines.Bytes(), &cards); err != nil {
			err = fmt.Errorf("read the output of %s: %w", reader, err)
			break
		}
		silence.Reset(quietFor * every)
		give(cards, nil)
	}
	silent := context.Cause(ctx)
	cancel(nil)
	ended := cmd.Wait()
	switch {
	case err != nil:
		return err
	case silent != nil:
		return silent
	case complaint.Len() > 0:
		return fmt.Errorf("%s ended: %s", reader, strings.TrimSpace(complaint.String()))
	}
	return errors.Join(fmt.Errorf("%s ended", reader), ended, lines.Err())
}
