package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// maxRequests bounds what a trace becomes in memory.
const maxRequests = 20_000_000

// Mean tokens of requests whose trace knows only rates.
const (
	ratePrompt = 1000
	rateAnswer = 200
)

// window is a time with one rate, and how gaps between arrivals are spread.
type window struct {
	at      time.Duration
	rate    float64
	weibull bool    // else Gamma
	shape   float64 // of the gaps' distribution; 1: Poisson arrivals
}

// draw makes arrivals of windows' rates as ServeGen does: gaps are Gamma or
// Weibull with the window's shape. Gaps are drawn with mean 1 and measured out
// in expected requests instead of seconds, so that a long gap spans windows
// and a short window does not begin with a burst of its own.
func draw(windows []window, seed uint64, most int) ([]Request, error) {
	r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // repeatable, no secret
	length := 10 * time.Minute
	if len(windows) > 1 {
		length = windows[1].at - windows[0].at
	}
	if all := expected(windows, length); all > float64(most) {
		return nil, fmt.Errorf("these rates are about %.0f requests, and at most %d are replayed: replay a share of %.1g of them", all, most, float64(most)/all/2)
	}
	var trace []Request
	ahead := windows[0].gap(r) // expected requests until the next arrival
	for _, w := range windows {
		if !(w.rate >= 0) || math.IsInf(w.rate, 0) {
			return nil, fmt.Errorf("draw the arrivals at %s: %g requests per second is no rate", w.at, w.rate)
		}
		left := w.rate * length.Seconds()
		for ; ahead < left; ahead += w.gap(r) {
			if len(trace) >= most {
				return nil, fmt.Errorf("draw the arrivals at %s: there are more than %d requests: replay a share of them", w.at, most)
			}
			at := w.at + time.Duration(ahead/w.rate*float64(time.Second))
			trace = append(trace, Request{at, int(ratePrompt * r.ExpFloat64()), int(rateAnswer * r.ExpFloat64())})
		}
		ahead -= left
	}
	return trace, nil
}

// expected is how many requests windows are on average.
func expected(windows []window, length time.Duration) (all float64) {
	for _, w := range windows {
		all += max(0, w.rate) * length.Seconds()
	}
	return all
}

// gap is one of mean 1.
func (w window) gap(r *rand.Rand) float64 {
	switch {
	case w.shape <= 0 || w.shape == 1 || math.IsNaN(w.shape):
		return r.ExpFloat64()
	case w.weibull:
		return math.Pow(r.ExpFloat64(), 1/w.shape) / math.Gamma(1+1/w.shape)
	default:
		return gamma(r, w.shape) / w.shape
	}
}

// gamma draws by Marsaglia and Tsang, "A Simple Method for Generating Gamma
// Variables" (2000).
func gamma(r *rand.Rand, shape float64) float64 {
	if shape < 1 {
		return gamma(r, shape+1) * math.Pow(1-r.Float64(), 1/shape)
	}
	d := shape - 1.0/3
	for {
		x := r.NormFloat64()
		v := 1 + x/math.Sqrt(9*d)
		if v <= 0 {
			continue
		}
		v *= v * v
		if math.Log(1-r.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}
