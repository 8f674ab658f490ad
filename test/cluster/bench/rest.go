package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/test/cluster"
	"modeldock.io/test/cluster/dock"
)

const (
	// rounds of reconciliation are watched.
	rounds = 5
	// calmFor is how long nothing is written before the cluster counts as idle.
	calmFor = 3 * time.Second
	// calmWait bounds the wait for that.
	calmWait = 5 * time.Minute
)

// memory reads what the controllers' processes took at most.
func (s *stage) memory(context.Context) error {
	const limit = 250
	most := 0.0
	for _, p := range append(slices.Clone(s.dock.Controllers), s.dock.Gateways...) {
		now, peak, err := resident(p.PID())
		if err != nil {
			return err
		}
		fmt.Printf("%s: %.0f MiB resident, %.0f at most\n", p.Name, now, peak)
		if slices.Contains(s.dock.Controllers, p) {
			most = max(most, peak)
		}
	}
	s.results = append(s.results, result{Name: "controller_rss_peak", Value: most, Unit: "MiB", Target: limit, Better: "lower"})
	return nil
}

func resident(pid int) (now, peak float64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, fmt.Errorf("read a process's memory: %w", err)
	}
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		if len(fields) != 3 {
			continue
		}
		kib, _ := strconv.ParseFloat(fields[1], 64)
		switch fields[0] {
		case "VmRSS:":
			now = kib / 1024
		case "VmHWM:":
			peak = kib / 1024
		}
	}
	return now, peak, nil
}

// rest counts our writes over rounds of reconciliation in which nothing
// changes, and proves that the count would not miss one.
func (s *stage) rest(ctx context.Context) error {
	if err := s.calm(ctx); err != nil {
		return err
	}
	began := time.Now()
	took, err := s.awaitRounds(ctx)
	if err != nil {
		return err
	}
	writes, requests, err := s.writesSince(began)
	if err != nil {
		return err
	}
	fmt.Printf("%d rounds of reconciliation in %s: %d requests of ours, %d of them writes\n", rounds, took.Round(time.Second), requests, len(writes))
	for _, w := range writes[:min(len(writes), 20)] {
		fmt.Printf("  %s %s %s/%s/%s by %s (%s): %d\n", w.Received.Format(time.TimeOnly), w.Verb, w.ObjectRef.Resource, w.ObjectRef.Name, w.ObjectRef.Subresource, w.User.Username, w.UserAgent, w.ResponseStatus.Code)
	}
	s.results = append(s.results, result{Name: "writes_at_rest", Value: float64(len(writes)), Unit: "1", Target: 0, Better: "lower"})
	return s.disturb(ctx)
}

// disturb removes a Service: putting it back is a write that must be counted.
func (s *stage) disturb(ctx context.Context) error {
	began := time.Now()
	list, err := s.client.CoreV1().Services(dock.Namespace).List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelModelService, Limit: 1})
	if err != nil || len(list.Items) == 0 {
		return fmt.Errorf("find a Service to remove: %w", err)
	}
	name := list.Items[0].Name
	if err := s.client.CoreV1().Services(dock.Namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("remove a Service: %w", err)
	}
	for deadline := time.Now().Add(calmWait); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		writes, _, err := s.writesSince(began)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(writes, func(e cluster.AuditEvent) bool {
			return e.Verb == "create" && e.ObjectRef.Resource == "services" && e.ObjectRef.Name == name
		}) {
			return nil
		}
	}
	return fmt.Errorf("the Service %s was removed, and no write of ours that puts it back was counted: the count of writes at rest is worth nothing", name)
}

// calm returns once nothing of ours was written for a while.
func (s *stage) calm(ctx context.Context) error {
	for deadline := time.Now().Add(calmWait); ; {
		writes, _, err := s.writesSince(time.Now().Add(-calmFor))
		if err != nil || (len(writes) == 0 && time.Now().Before(deadline)) {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("ModelDock still writes after %s without a change: %d requests in %s, the last %s %s %s", calmWait, len(writes), calmFor, writes[0].Verb, writes[0].ObjectRef.Resource, writes[0].ObjectRef.Name)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(calmFor):
		}
	}
}

// writesSince are our write requests, Leases aside, and how many requests of
// ours there were at all.
func (s *stage) writesSince(since time.Time) (writes []cluster.AuditEvent, requests int, err error) {
	events, err := s.cluster.Audit()
	for _, e := range events {
		if e.Received.Before(since) || !strings.HasPrefix(e.User.Username, "system:serviceaccount:"+dock.System+":") {
			continue
		}
		requests++
		if e.Writes() && e.ObjectRef.Resource != "leases" {
			writes = append(writes, e)
		}
	}
	return writes, requests, err
}

// awaitRounds waits until every controller has compared ledger and objects, and
// the operator has looked at every object, as often as is watched.
func (s *stage) awaitRounds(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	first, err := s.rounds(ctx)
	if err != nil {
		return 0, err
	}
	for {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
		now, err := s.rounds(ctx)
		if err != nil {
			return 0, err
		}
		if now.compared-first.compared >= rounds && now.operated-first.operated >= float64(rounds*s.plan.objects) {
			return time.Since(began), nil
		}
		if time.Since(began) > 20*rounds*s.plan.reconcile {
			return 0, fmt.Errorf("no %d rounds within %s: compared %v → %v, operated %v → %v", rounds, time.Since(began), first.compared, now.compared, first.operated, now.operated)
		}
	}
}

// counted is what the controllers count: the fewest comparisons of any of
// them, and all looks at single objects.
type counted struct{ compared, operated float64 }

func (s *stage) rounds(ctx context.Context) (counted, error) {
	out := counted{compared: -1}
	for _, p := range s.dock.Controllers {
		metrics, err := scrape(ctx, p.Ops)
		if err != nil {
			return out, err
		}
		compared := metrics["modeldock_delivery_reconciliations_total"]
		if out.compared < 0 || compared < out.compared {
			out.compared = compared
		}
		for name, value := range metrics {
			if strings.HasPrefix(name, `controller_runtime_reconcile_total{controller="modelservice"`) {
				out.operated += value
			}
		}
	}
	return out, nil
}

// scrape reads a process's metrics, by name and labels.
func scrape(ctx context.Context, url string) (map[string]float64, error) {
	text, err := get(ctx, url+"/metrics")
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	out := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		i := strings.LastIndex(line, " ")
		if i < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if v, err := strconv.ParseFloat(strings.TrimSpace(line[i:]), 64); err == nil {
			out[line[:i]] = v
		}
	}
	return out, nil
}
