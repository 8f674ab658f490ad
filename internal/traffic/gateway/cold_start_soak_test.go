//go:build soak

package gateway_test

import (
	"bufio"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/gateway"
)

const (
	coldCallers = 500
	coldStart   = 10 * time.Second
)

// TestColdStartEstimates: 500 callers wait for a model that starts for the
// second time and are told how long. What they are told first is within 30 %
// of what it takes, and all are answered. It measures times and so needs a
// machine that does little else.
func TestColdStartEstimates(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *gateway.Config) { c.ProgressEvery = time.Second })
	b.client.Transport.(*http.Transport).MaxIdleConnsPerHost = coldCallers
	b.publish(func(s *traffic.Snapshot) { s.Models[0].MaxWaiting = coldCallers })
	b.gateway.SnapshotChanged()
	b.coldStart() // from which the next estimates are learnt
	off := b.coldStart()
	slices.Sort(off)
	t.Logf("told first / took: least %.2f, p5 %.2f, median %.2f, p95 %.2f, most %.2f",
		off[0], off[len(off)/20], off[len(off)/2], off[len(off)*19/20], off[len(off)-1])
	if off[0] < 0.7 || off[len(off)-1] > 1.3 {
		t.Errorf("estimates are between %.2f and %.2f of the time that it took", off[0], off[len(off)-1])
	}
}

// coldStart lets all callers wait, starts two replicas after a while, and
// returns for each caller what it was told over what it took.
func (b *bench) coldStart() []float64 {
	b.t.Helper()
	ready := time.Now().Add(coldStart)
	var all sync.WaitGroup
	var mu sync.Mutex
	var off []float64
	for range coldCallers {
		all.Go(func() {
			told, took := b.waitTold()
			mu.Lock()
			off = append(off, told.Seconds()/took.Seconds())
			mu.Unlock()
		})
	}
	eventually(b.t, "all to wait", func() bool { return b.waiting("m1") == coldCallers })
	time.Sleep(time.Until(ready)) // the model's start
	answer := func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(100 * time.Millisecond) // the engine's work
		events(chunkEvent("a"), stopEvent, doneEvent)(w, r)
	}
	first, second := b.replica("p1", 8, answer), b.replica("p2", 8, answer)
	all.Wait()
	b.allReturned()
	b.table.Remove(first.UID)
	b.table.Remove(second.UID)
	return off
}

// waitTold asks for a stream and returns how long it was told to wait first
// and how long it took from then to the first event.
func (b *bench) waitTold() (told, took time.Duration) {
	request, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.url+"/v1/chat/completions", strings.NewReader(helloStream))
	if err != nil {
		b.t.Error(err)
		return 0, 1
	}
	request.Header.Set("Authorization", "Bearer "+keyA)
	request.Header.Set("X-Modeldock-Progress", "1")
	answer, err := b.client.Do(request)
	if err != nil {
		b.t.Error(err)
		return 0, 1
	}
	defer func() { _ = answer.Body.Close() }()
	lines := bufio.NewReader(answer.Body)
	var at time.Time
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			b.t.Errorf("the stream ended in its wait: %v", err)
			return 0, 1
		}
		if _, seconds, ok := strings.Cut(strings.TrimSpace(line), "seconds="); ok && at.IsZero() {
			n, _ := strconv.Atoi(seconds)
			told, at = time.Duration(n)*time.Second, time.Now()
		}
		if strings.HasPrefix(line, "data:") {
			break
		}
	}
	took = time.Since(at)
	if rest, _ := io.ReadAll(lines); !strings.HasSuffix(string(rest), doneEvent) {
		b.t.Errorf("the stream has no end: %q", rest)
	}
	return told, took
}
