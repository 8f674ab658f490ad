//go:build cluster

package placement

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"modeldock.io/internal/placement"
)

// form is how large a storm is.
type form struct {
	seed         uint64
	nodes, cards int
	pods         int
	killAt       []int // Bindings
}

// chosenForm is the short one, unless MODELDOCK_STORM is "long"; MODELDOCK_STORM_SEED
// makes another storm of it.
func chosenForm(t *testing.T) form {
	t.Helper()
	f := form{seed: 1, nodes: 25, cards: 8, pods: 200, killAt: []int{30, 80}}
	if os.Getenv("MODELDOCK_STORM") == "long" {
		f.nodes, f.pods, f.killAt = 125, 1000, []int{50, 100, 170, 240, 310, 380, 450, 500}
	}
	if text := os.Getenv("MODELDOCK_STORM_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("MODELDOCK_STORM_SEED: %v", err)
		}
		f.seed = seed
	}
	return f
}

const (
	mostWaiting = 25          // undecided Pods, before the next step waits
	stepWait    = time.Second // for them; the scheduler may be dead
)

// The cards of a storm are of two sizes.
func stormCards(node, card int) int64 { return []int64{16384, cardMiB}[(node+card)%2] }

// Whatever happens to Pods, Bindings and the scheduler, no card ever holds more
// than it has; and when the storm is over, the scheduler counts what Pods add up
// to, and nobody waits who fits.
func TestStorm(t *testing.T) {
	t.Parallel()
	f := chosenForm(t)
	b := setup(t, f.nodes, f.cards, stormCards)
	b.class("urgent", 1000)
	seen := newWitness(t, b, newAccounts(f.nodes, f.cards, stormCards))
	storm := newWeather(b.proxy, f.seed, f.killAt...)
	b.proxy.meets(storm)
	began := time.Now()
	killed := make(chan int, 1)
	over := make(chan struct{})
	go func() { killed <- b.kill(storm, over) }()
	for _, s := range plan(f.seed, f.pods) {
		b.take(s, storm, seen)
	}
	close(over)
	kills := <-killed
	if left := storm.clear(); left != 0 {
		t.Errorf("%d of %d kills never came about", left, len(f.killAt))
	}
	blew := time.Since(began)
	sum := b.settled(seen)
	settled := time.Since(began)
	b.counted(seen)
	b.exact(seen)
	b.counted(seen)
	if err := seen.objections(); err != nil {
		t.Errorf("seed %d: %v", f.seed, err)
	}
	used, room := sum.total()
	t.Logf("seed %d: %d Pods on %d nodes with %d cards for %.0f s, settled after %.0f s more; %d kills; %v; at the end %d Pods hold %.1f %% of the memory; Bindings met: %v",
		f.seed, f.pods, f.nodes, f.nodes*f.cards, blew.Seconds(), (settled - blew).Seconds(), kills, seen, len(sum.holds), 100*float64(used)/float64(room), storm)
}

// kill kills and starts the scheduler when the storm says so, until it is over.
func (b *bundle) kill(storm *weather, over <-chan struct{}) (kills int) {
	for {
		select {
		case <-over:
			return kills
		case <-storm.kills:
		}
		if err := b.scheduler.Kill(); err != nil {
			b.t.Error(err)
		}
		storm.dead()
		if err := b.scheduler.Start(b.t.Context()); err != nil {
			b.t.Error(err)
			return kills
		}
		kills++
	}
}

// take does one step, after the scheduler has looked at most of the Pods there are.
func (b *bundle) take(s step, storm *weather, seen *witness) {
	b.t.Helper()
	for deadline := time.Now().Add(stepWait); seen.waiting() > mostWaiting && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	ctx, pods, name := b.t.Context(), b.client.CoreV1().Pods(namespace), fmt.Sprintf("p-%d", s.pod)
	var err error
	switch s.do {
	case create:
		b.demand(name, s.demand)
	case end:
		err = pods.Delete(ctx, name, metav1.DeleteOptions{})
	case replace:
		err = pods.Delete(ctx, name, *metav1.NewDeleteOptions(0))
		if err == nil || apierrors.IsNotFound(err) {
			b.demand(name, s.demand)
		}
	case finish:
		_, err = pods.Patch(ctx, name, types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status")
	case cut:
		storm.cut()
	}
	if err != nil && !apierrors.IsNotFound(err) { // an urgent one may have evicted it
		b.t.Fatal(err)
	}
}

func (b *bundle) demand(name string, d demand) {
	b.t.Helper()
	b.create(name, 1, func(p *corev1.Pod) {
		p.Annotations = map[string]string{placement.MemoryAnnotation: d.memory, placement.CountAnnotation: strconv.Itoa(d.cards)}
		if d.urgent {
			p.Spec.PriorityClassName = "urgent"
		}
	})
}

// settled waits until nobody waits who fits, and everybody who waits knows why.
func (b *bundle) settled(seen *witness) (sum *accounts) {
	b.t.Helper()
	b.eventually(func(ctx context.Context) error {
		now, pods, err := seen.count(ctx)
		if err != nil {
			return err
		}
		if err := stays(now, pods); err != nil {
			return err
		}
		sum = now
		return seen.agrees(now)
	})
	return sum
}

// stays tells why this cannot be how it ends.
func stays(now *accounts, pods []corev1.Pod) error {
	for i := range pods {
		p := &pods[i]
		if p.DeletionTimestamp != nil {
			return fmt.Errorf("%s is still ending", p.Name)
		}
		if !waits(p) {
			continue
		}
		mib, cards, valid := asked(p)
		reason := unschedulable(p)
		if valid {
			if node := now.fits(mib, cards); node != "" {
				return fmt.Errorf("%s waits for %d MiB on %d cards although they are free on %s: %q", p.Name, mib, cards, node, reason)
			}
			if !strings.Contains(reason, "MiB") {
				return fmt.Errorf("%s waits and is told %q", p.Name, reason)
			}
		} else if !strings.Contains(reason, placement.MemoryAnnotation) {
			return fmt.Errorf("%s asks for nonsense and is told %q", p.Name, reason)
		}
	}
	return nil
}

var sample = regexp.MustCompile(`(?m)^modeldock_gpu_memory_(\w+)(?:\{(?:card="([^"]*)",)?node="([^"]*)"\})? (\S+)$`)

// counted waits until the scheduler's accounts are what Pods add up to.
func (b *bundle) counted(seen *witness) {
	b.t.Helper()
	b.eventually(func(ctx context.Context) error {
		text, err := b.metrics(ctx)
		if err != nil {
			return err
		}
		sum, _, err := seen.count(ctx)
		if err != nil {
			return err
		}
		return equal(sum, text)
	})
}

// metrics are the scheduler's.
func (b *bundle) metrics(ctx context.Context) (string, error) {
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // its certificate is its own
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/metrics", b.port), http.NoBody)
	if err != nil {
		return "", err
	}
	res, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }() // it was read
	body, err := io.ReadAll(res.Body)
	return string(body), err
}

// equal tells where the scheduler's metrics differ from what Pods add up to.
func equal(sum *accounts, metrics string) error {
	cards := 0
	for _, m := range sample.FindAllStringSubmatch(metrics, -1) {
		value, err := strconv.ParseFloat(m[4], 64)
		if err != nil {
			return fmt.Errorf("read %q: %w", m[0], err)
		}
		switch at := (place{m[3], m[2]}); m[1] {
		case "allocated_bytes":
			cards++
			if mib := int64(value) >> 20; mib != sum.used[at] {
				return fmt.Errorf("the scheduler counts %d MiB on card %s, and Pods hold %d", mib, at.card, sum.used[at])
			}
		case "ledger_drift_bytes", "bindings_in_doubt", "unreadable_nodes":
			if value != 0 {
				return errors.New(m[0])
			}
		}
	}
	if cards != len(sum.room) {
		return fmt.Errorf("the scheduler counts on %d of %d cards", cards, len(sum.room))
	}
	return nil
}

// exact asks the scheduler itself: what the largest fragment is must be placed,
// and one MiB more than it must not.
func (b *bundle) exact(seen *witness) {
	b.t.Helper()
	sum := b.settled(seen)
	if largest := sum.largest(); largest > 0 {
		b.create("exact", largest)
		b.placed("exact")
	}
	sum = b.settled(seen)
	b.create("more", sum.largest()+1)
	b.pending("more")
	b.settled(seen)
}
