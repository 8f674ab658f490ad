package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modeldock.io/internal/traffic"
)

const (
	fairTenants  = 20
	modestAtOnce = 2 // requests that a modest tenant keeps waiting
	greedyAtOnce = 50 * modestAtOnce
)

// turns is what a run of tenants on one saturated model measured.
type turns struct {
	waits  []int           // by modest tenant: answers to others between asking and being served, at fairPercentile
	queued []time.Duration // the gateway's own word for it
	greedy int64           // answers that the greedy tenant got
	all    int64
}

// TestGreedyTenant: one tenant of 20 wants fifty times as much as each of the
// others. Their waits stay within twice those of the same run without it, and
// it gets no less than its share. Waits are counted in answers to others,
// which a busy machine does not change.
func TestGreedyTenant(t *testing.T) {
	t.Parallel()
	without, with := runTenants(t, false), runTenants(t, true)
	for i := range without.waits {
		if base, got := without.waits[i], with.waits[i]; got > 2*base {
			t.Errorf("tenant %d waited for %d answers to others at percentile %d, %d without the greedy one", i, got, fairPercentile, base)
		}
	}
	if share := with.all / fairTenants; with.greedy < share/2 {
		t.Errorf("the greedy tenant got %d of %d answers, its share is %d", with.greedy, with.all, share)
	}
	t.Logf("answers to others, percentile %d by tenant: %v without, %v with; longest in the queue: %v and %v; greedy %d of %d",
		fairPercentile, without.waits, with.waits, slices.Max(without.queued), slices.Max(with.queued), with.greedy, with.all)
}

func runTenants(t *testing.T, greedy bool) turns {
	t.Helper()
	b := setup(t)
	b.client.Transport.(*http.Transport).MaxIdleConnsPerHost = 2 * greedyAtOnce
	key := func(i int) string { return fmt.Sprintf("mdk_t%02d_secret", i) }
	tenant := func(i int) string { return fmt.Sprintf("tenant-%02d", i) }
	b.publish(func(s *traffic.Snapshot) {
		s.Models[0].MaxWaiting = 1000
		s.Keys, s.Grants = map[string]traffic.Key{}, map[traffic.GrantKey]struct{}{}
		for i := range fairTenants {
			k := credential(key(i), tenant(i))
			s.Keys[k.ID] = k
			s.Grants[traffic.GrantKey{Owner: "team-a", Model: "m1", Grantee: tenant(i)}] = struct{}{}
		}
	})
	var served atomic.Int64
	b.replica("p1", 4, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		now := served.Add(1)
		time.Sleep(time.Millisecond) // the engine's work
		w.Header().Set("Openai-Turn", fmt.Sprint(now))
		_, _ = io.WriteString(w, wholeChat)
	})
	ask := func(i int) int {
		before := served.Load()
		got := b.chat(key(i), helloChat)
		if got.status != http.StatusOK {
			t.Errorf("%s: %d %s", tenant(i), got.status, got.body)
		}
		var turn int64
		_, _ = fmt.Sscan(got.header.Get("Openai-Turn"), &turn)
		return int(turn - before)
	}
	waits := make([][]int, fairTenants)
	var mu sync.Mutex
	var modest, all sync.WaitGroup
	var over atomic.Bool
	var greedyAnswers atomic.Int64
	if greedy {
		for range greedyAtOnce {
			all.Go(func() {
				for !over.Load() {
					ask(0)
					if !over.Load() {
						greedyAnswers.Add(1)
					}
				}
			})
		}
		eventually(t, "the greedy tenant to fill the line", func() bool { return b.waiting("m1") > greedyAtOnce/2 })
	}
	for i := 1; i < fairTenants; i++ {
		for range modestAtOnce {
			modest.Go(func() {
				for range fairTurns / modestAtOnce {
					n := ask(i)
					mu.Lock()
					waits[i] = append(waits[i], n)
					mu.Unlock()
				}
			})
		}
	}
	modest.Wait()
	result := turns{all: served.Load()}
	over.Store(true)
	all.Wait()
	b.allReturned()
	result.greedy = greedyAnswers.Load()
	queued := map[string][]time.Duration{}
	for _, r := range b.records.all() {
		queued[r.Tenant] = append(queued[r.Tenant], r.QueuedFor)
	}
	for i := 1; i < fairTenants; i++ {
		result.waits = append(result.waits, percentile(waits[i]))
		result.queued = append(result.queued, percentile(queued[tenant(i)]))
	}
	return result
}

func percentile[T int | time.Duration](list []T) T {
	slices.Sort(list)
	return list[len(list)*fairPercentile/100]
}
