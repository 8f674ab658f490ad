//go:build cluster

package oncluster

import (
	"bufio"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"modeldock.io/test/scenario"
)

func contains(text string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}

// running waits until a model's engine itself counts so many requests.
func running(t *testing.T, i *Installation, c scenario.Caller, model string, want int) {
	t.Helper()
	pods := i.Pods(t, "team-a", model)
	if len(pods) != 1 {
		t.Fatalf("model %s has %d Pods", model, len(pods))
	}
	var seen string
	scenario.Eventually(t, fmt.Sprintf("%d requests on the engine of %s", want, model), func() bool {
		seen = "no answer"
		resp, err := http.Get("http://" + c.Endpoint(model) + "/metrics")
		if err != nil {
			return false
		}
		defer func() { _ = resp.Body.Close() }()
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "vllm:num_requests_running") {
				seen = lines.Text()
				return strings.HasSuffix(seen, fmt.Sprint(" ", want))
			}
		}
		return false
	}, func() any { return seen })
}

// served is how many requests the engine at a Pod's address has taken, as it
// counts itself.
func served(t *testing.T, ip string) (total float64) {
	t.Helper()
	resp, err := http.Get("http://" + ip + ":8000/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), " "); ok && strings.HasPrefix(name, "modeldock_simulated_requests_total") {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatalf("read the engine's metrics: %v", err)
			}
			total += n
		}
	}
	return total
}
