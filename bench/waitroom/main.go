// Command waitroom measures what fairness costs (account 3): how many waiting
// requests of 1000 tenants the waiting room lets in per second of one core,
// against a Go channel that serves them in no order at all. Both hand a place
// to a goroutine each time, in alternating rounds of one run, and CPU time is
// what counts, because wall times cannot be judged on shared cores.
//
//	go run ./bench/waitroom [--quick]
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"modeldock.io/internal/traffic/waitroom"
)

const (
	tenants = 1000
	callers = 2 // of each tenant, waiting at once
	// target is in dispatches per second of one core.
	target = 100_000
)

func main() {
	quick := flag.Bool("quick", false, "fewer and shorter rounds")
	flag.Parse()
	runtime.GOMAXPROCS(1)
	rounds, n := 7, 400_000
	if *quick {
		rounds, n = 3, 100_000
	}
	var fair, plain []float64
	for round := range rounds + 1 {
		f, p := perSecond(n, throughRoom), perSecond(n, throughChannel)
		if round > 0 { // the first one warms up
			fair, plain = append(fair, f), append(plain, p)
		}
	}
	value, baseline := median(fair), median(plain)
	fmt.Printf("dispatches per second of one core, %d tenants: %.0f in fair order, %.0f through a channel, ratio %.2f (target ≥ %d)\n",
		tenants, value, baseline, value/baseline, target)
	err := json.NewEncoder(os.Stdout).Encode(map[string]any{"bench": "waitroom", "results": []map[string]any{{
		"name": "dispatch_1000_tenants", "value": int(value), "unit": "1/s", "baseline": int(baseline),
		"ratio": float64(int(value/baseline*1000)) / 1000, "target": target, "better": "higher",
	}}})
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/waitroom:", err)
		os.Exit(1)
	}
}

func perSecond(n int, run func(n int)) float64 {
	before := cpuTime()
	run(n)
	return float64(n) / (cpuTime() - before).Seconds()
}

// serve starts the callers; each takes places until there is none left.
func serve(take func(tenant string) bool) *sync.WaitGroup {
	var all sync.WaitGroup
	for i := range tenants * callers {
		tenant := fmt.Sprint("tenant-", i%tenants)
		all.Go(func() {
			for take(tenant) {
			}
		})
	}
	return &all
}

// throughRoom lets n requests in by the room's order, one free place at a time.
func throughRoom(n int) {
	var free, left atomic.Int64
	left.Store(int64(n))
	room := waitroom.New(waitroom.Config[string, struct{}, struct{}]{
		Take: func(string, struct{}, bool) (struct{}, bool) {
			return struct{}{}, free.Add(-1) >= 0 || free.Add(1) < 0
		},
	})
	all := serve(func(tenant string) bool {
		_, err := room.Wait(context.Background(), "model", waitroom.Guest[struct{}]{
			Tenant: tenant, Tokens: 500, MaxWaiting: 2 * tenants * callers, Timeout: time.Hour,
		})
		return err == nil
	})
	for left.Add(-1) >= 0 {
		for room.Waiting("model") < tenants*callers/2 {
			runtime.Gosched()
		}
		free.Add(1)
		room.Wake("model")
	}
	room.Close(context.Canceled)
	all.Wait()
}

// throughChannel hands out as many places without any order.
func throughChannel(n int) {
	places := make(chan struct{})
	all := serve(func(string) bool {
		_, open := <-places
		return open
	})
	for range n {
		places <- struct{}{}
	}
	close(places)
	all.Wait()
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
