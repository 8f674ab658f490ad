package simulate

import (
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
)

// trace reads a share of one of the recorded traces.
func recorded(t *testing.T, name string, share float64) []Request {
	t.Helper()
	file, err := os.Open("../../../bench/traces/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	trace, err := Read(file, 1, share)
	if err != nil || len(trace) == 0 {
		t.Fatalf("%s: %d requests, %v", name, len(trace), err)
	}
	return trace
}

// TestGaps: gaps have mean 1 and the spread that their distribution has.
func TestGaps(t *testing.T) {
	t.Parallel()
	weibull := func(k float64) float64 {
		return math.Sqrt(math.Gamma(1+2/k)/math.Pow(math.Gamma(1+1/k), 2) - 1)
	}
	for _, c := range []struct {
		w  window
		cv float64
	}{
		{window{shape: 1}, 1},
		{window{shape: 4}, 0.5},
		{window{shape: 0.5}, math.Sqrt2},
		{window{shape: 2, weibull: true}, weibull(2)},
		{window{shape: 0.7, weibull: true}, weibull(0.7)},
	} {
		r := rand.New(rand.NewPCG(7, 7))
		const n = 200000
		var sum, squares float64
		for range n {
			g := c.w.gap(r)
			sum, squares = sum+g, squares+g*g
		}
		mean := sum / n
		if cv := math.Sqrt(squares/n-mean*mean) / mean; math.Abs(mean-1) > 0.02 || math.Abs(cv-c.cv) > 0.05*c.cv {
			t.Errorf("%+v: mean %g and cv %g, want 1 and %g", c.w, mean, cv, c.cv)
		}
	}
}

// TestShare: a share of a trace of rates has that share of the requests, as
// bursty as all of them; and days of silence stay silent.
func TestShare(t *testing.T) {
	t.Parallel()
	trace := recorded(t, "servegen_language_m-large_client73_sporadic.csv", 0.005)
	const expected = 12805890 * 0.005
	if n := float64(len(trace)); math.Abs(n-expected) > 0.05*expected {
		t.Errorf("%g requests, want about %g", n, expected)
	}
	var longest, same float64
	for i, q := range trace[1:] {
		gap := (q.At - trace[i].At).Seconds()
		longest = max(longest, gap)
		if gap < 0.1 {
			same++
		}
	}
	// Poisson arrivals of the busiest window would have 1.2 in a second.
	if longest < 12*3600 || same < 0.1*float64(len(trace)) {
		t.Errorf("the longest gap is %g s, and %g of %d follow within 100 ms", longest, same, len(trace))
	}
}

// Rates that are too many requests are refused before any is drawn, with a share
// that would do.
func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	_, err := draw([]window{{rate: 10}, {at: time.Minute, rate: 30}}, 1, 1200)
	if err == nil || !strings.Contains(err.Error(), "about 2400 requests, and at most 1200 are replayed: replay a share of 0.2 of them") {
		t.Errorf("refused by %v", err)
	}
}
