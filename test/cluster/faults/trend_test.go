package faults

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"modeldock.io/test/cluster/dock"
)

// sampleEvery is the time between two looks at a process.
const sampleEvery = 5 * time.Second

// sample is what a process holds at one moment.
type sample struct{ residentMiB, goroutines, files float64 }

// trend is what a process held over time.
type trend struct {
	process *dock.Process
	samples []sample
}

func (s *trend) watch(ctx context.Context, t *testing.T) {
	for pause(ctx, sampleEvery) {
		one, err := look(s.process)
		if err != nil {
			t.Errorf("%s cannot be looked at: %v", s.process.Name, err)
			return
		}
		s.samples = append(s.samples, one)
	}
}

// look reads what the process says of itself.
func look(p *dock.Process) (one sample, err error) {
	resp, err := http.Get(p.Ops + "/metrics")
	if err != nil {
		return one, err
	}
	defer func() { _ = resp.Body.Close() }()
	found := 0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, text, _ := strings.Cut(lines.Text(), " ")
		into := map[string]*float64{"process_resident_memory_bytes": &one.residentMiB, "go_goroutines": &one.goroutines, "process_open_fds": &one.files}[name]
		if into == nil {
			continue
		}
		if *into, err = strconv.ParseFloat(text, 64); err != nil {
			return one, err
		}
		found++
	}
	if found != 3 {
		return one, fmt.Errorf("%d of 3 metrics are there", found)
	}
	one.residentMiB /= 1 << 20
	return one, nil
}

// median of some samples, each figure for itself.
func median(of []sample) sample {
	one := func(read func(sample) float64) float64 {
		all := make([]float64, 0, len(of))
		for _, s := range of {
			all = append(all, read(s))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	return sample{one(func(s sample) float64 { return s.residentMiB }), one(func(s sample) float64 { return s.goroutines }), one(func(s sample) float64 { return s.files })}
}

// Slack that is no leak: a heap breathes, connections are kept for a while.
const (
	slackMiB   = 48
	slackCount = 40
)

// judge compares the second quarter of the time with the last, and waits until
// the process holds little once nothing is asked of it any more.
func (s *trend) judge(b *bundle, name string) map[string]any {
	b.t.Helper()
	if len(s.samples) < 8 {
		b.t.Errorf("%s was looked at only %d times", name, len(s.samples))
		return nil
	}
	quarter := len(s.samples) / 4
	early, late := median(s.samples[quarter:2*quarter]), median(s.samples[3*quarter:])
	if late.residentMiB > 1.3*early.residentMiB+slackMiB || late.goroutines > 1.3*early.goroutines+slackCount || late.files > 1.3*early.files+slackCount {
		b.t.Errorf("%s grows: %+v in the second quarter, %+v in the last", name, early, late)
	}
	var last sample
	b.eventually(name+" to let go of what it held for the churn", func(context.Context) string {
		var err error
		last, err = look(s.process)
		if err == nil && last.goroutines <= early.goroutines+slackCount && last.files <= early.files+slackCount {
			return ""
		}
		return fmt.Sprintf("%+v, early %+v, %v", last, early, err)
	})
	figures := func(s sample) map[string]float64 {
		return map[string]float64{"residentMiB": float64(int(s.residentMiB)), "goroutines": s.goroutines, "files": s.files}
	}
	return map[string]any{"early": figures(early), "late": figures(late), "afterwards": figures(last)}
}
