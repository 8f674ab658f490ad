package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"modeldock.io/test/cluster/management"
)

// allowed is what a latency may take beside one round trip to the API server.
const allowed = 200 * time.Millisecond

// latencies are measured one request at a time, with all the objects there.
func (s *stage) latencies(ctx context.Context) error {
	if err := s.calm(ctx); err != nil {
		return err
	}
	trips, err := s.roundTrips(ctx)
	if err != nil {
		return err
	}
	var made, ready []float64
	for i := range s.plan.samples {
		m, r, err := s.sample(ctx, fmt.Sprint("sample-", i))
		if err != nil {
			return err
		}
		made, ready = append(made, milliseconds(m)), append(ready, milliseconds(r))
	}
	trip := quantile(trips, 0.99)
	for name, of := range map[string][]float64{"object_after_commit_p99": made, "ready_after_pod_p99": ready} {
		fmt.Printf("%s: median %.1f ms, p90 %.1f, p99 %.1f; API round trip: median %.1f ms, p99 %.1f\n", name, quantile(of, 0.5), quantile(of, 0.9), quantile(of, 0.99), quantile(trips, 0.5), trip)
		s.results = append(s.results, result{
			Name: name, Value: quantile(of, 0.99), Unit: "ms", Baseline: trip, Target: trip + milliseconds(allowed), Better: "lower",
		})
	}
	return nil
}

// roundTrips asks for one ModelService again and again.
func (s *stage) roundTrips(ctx context.Context) ([]float64, error) {
	list, err := s.objects.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("find a ModelService: %w", err)
	}
	var out []float64
	for range s.plan.samples {
		began := time.Now()
		if _, err := s.objects.Get(ctx, list.Items[0].GetName(), metav1.GetOptions{}); err != nil {
			return nil, fmt.Errorf("measure a round trip: %w", err)
		}
		out = append(out, milliseconds(time.Since(began)))
		time.Sleep(5 * time.Millisecond)
	}
	return out, nil
}

// sample submits one request: how long after its reservation its object was
// there, and how long after its Pod it was Ready, both as a watch tells.
func (s *stage) sample(ctx context.Context, id string) (made, ready time.Duration, err error) {
	if err := s.submit(ctx, id); err != nil {
		return 0, 0, err
	}
	at, err := s.services.wait(ctx, 1, func(name string) bool { return name == id })
	if err != nil {
		return 0, 0, fmt.Errorf("wait for %s: %w", id, err)
	}
	var r management.Record
	if err := s.api.Call(ctx, http.MethodGet, "/requests/"+id, nil, &r); err != nil {
		return 0, 0, err
	}
	seen, _ := s.services.of(id)
	_, pod := s.pods.of(id)
	if pod.IsZero() || r.ReservedAt.IsZero() {
		return 0, 0, fmt.Errorf("%s is Ready without a ready Pod or a reservation: %+v", id, r)
	}
	return seen.Sub(r.ReservedAt), max(0, at.Sub(pod)), nil
}
