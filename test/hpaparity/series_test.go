package hpaparity

import (
	"math"
	"math/rand/v2"
	"time"
)

// series is one model, its metrics over time and what was decided. Its JSON is
// read by internal/elastic's tests; values are in thousandths.
type series struct {
	Name    string   `json:"name"`
	Min     int      `json:"min"`
	Max     int      `json:"max"`
	Metrics []metric `json:"metrics"`
	Up      rules    `json:"up"`
	Down    rules    `json:"down"`
	Rounds  []round  `json:"rounds"`

	start time.Duration // of a Pod, until it runs
	first int           // replicas
}

type metric struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	Target int64  `json:"target"`

	at func(at time.Duration, pods string) reading
}

type rules struct {
	Window    int32    `json:"window"`
	Policies  []policy `json:"policies"`
	Select    string   `json:"select"`
	Tolerance float64  `json:"tolerance"`
}

type policy struct {
	Type   string `json:"type"`
	Value  int32  `json:"value"`
	Period int32  `json:"period"`
}

type round struct {
	Seconds  float64            `json:"t"`
	Replicas int                `json:"n"`
	Pods     string             `json:"pods"` // p: Pending, r: Ready
	Values   map[string]reading `json:"v"`
	Decided  int                `json:"to"`
}

type reading struct {
	Total   *int64   `json:"total,omitempty"`
	Replica []*int64 `json:"replica,omitempty"`
}

// load is a total demand in requests at a moment; NaN: unknown.
type load func(at time.Duration) float64

func steps(at time.Duration) float64 {
	return []float64{5, 60, 60, 200, 20, 0, 0, 0, 90, 0, 0}[min(int(at/(5*time.Minute)), 10)]
}

func ramps(at time.Duration) float64 {
	return 80 - math.Abs(80-at.Minutes()*4)
}

func noise(l load, share float64) load {
	r := rand.New(rand.NewPCG(7, 11))
	return func(at time.Duration) float64 { return l(at) * (1 + share*(2*r.Float64()-1)) }
}

func gaps(l load) load {
	return func(at time.Duration) float64 {
		if m := int(at.Minutes()) % 9; m == 3 || m == 4 {
			return math.NaN()
		}
		return l(at)
	}
}

// object is one total.
func object(name, kind string, target float64, l load) metric {
	return metric{name, kind, int64(target * 1000), func(at time.Duration, _ string) (r reading) {
		if v := l(at); !math.IsNaN(v) {
			n := int64(math.Round(v * 1000))
			r.Total = &n
		}
		return r
	}}
}

// shared is a load that the running Pods share; every blind-th of them, if not
// zero, says nothing.
func shared(name string, target float64, l load, blind int) metric {
	return metric{name, "Pods/AverageValue", int64(target * 1000), func(at time.Duration, pods string) (r reading) {
		v, running := l(at), 0
		for _, p := range pods {
			if p == 'r' {
				running++
			}
		}
		for i, p := range pods {
			if p != 'r' || math.IsNaN(v) || blind > 0 && i%blind == blind-1 {
				r.Replica = append(r.Replica, nil)
				continue
			}
			n := int64(math.Round(v * 1000 / float64(running)))
			r.Replica = append(r.Replica, &n)
		}
		return r
	}}
}

func reference() (up, down rules) {
	return rules{30, []policy{{"Pods", 4, 60}}, "Max", 0.1}, rules{300, []policy{{"Pods", 1, 120}}, "Max", 0.1}
}

func all() []*series {
	const queue, memory, average, value = "inference_request_queue_depth", "gpu_memory_utilization_percent", "Object/AverageValue", "Object/Value"
	refUp, refDown := reference()
	quickUp := rules{0, []policy{{"Percent", 100, 15}, {"Pods", 4, 15}}, "Max", 0.05}
	slowUp := rules{60, []policy{{"Percent", 50, 60}, {"Pods", 3, 90}}, "Min", 0.2}
	quickDown := rules{60, []policy{{"Percent", 50, 60}, {"Pods", 2, 30}}, "Min", 0}
	percentDown := rules{120, []policy{{"Percent", 30, 45}, {"Pods", 3, 200}}, "Max", 0.15}
	never := rules{0, []policy{{"Pods", 1, 15}}, "Disabled", 0.1}
	list := []*series{
		{Name: "reference, steps", Metrics: []metric{shared(queue, 10, steps, 0)}, Up: refUp, Down: refDown, start: 90 * time.Second},
		{Name: "reference, ramps and a blind replica", Metrics: []metric{shared(queue, 10, noise(ramps, 0.2), 3)}, Up: refUp, Down: refDown, start: 20 * time.Second},
		{Name: "reference, gaps", Metrics: []metric{shared(queue, 10, gaps(noise(steps, 0.4)), 4)}, Up: refUp, Down: refDown, start: 45 * time.Second},
		{Name: "reference, preallocated memory", Metrics: []metric{shared(queue, 10, ramps, 0), shared(memory, 80, func(time.Duration) float64 { return 270 }, 0)}, Up: refUp, Down: refDown},
		{Name: "object, quick, noise", Metrics: []metric{object(queue, average, 10, noise(steps, 0.5))}, Up: quickUp, Down: quickDown, start: 60 * time.Second},
		{Name: "object, slow, NaN in one of two", Metrics: []metric{object(queue, average, 7, noise(ramps, 0.3)), object(memory, average, 80, gaps(steps))}, Up: slowUp, Down: percentDown, start: 30 * time.Second},
		{Name: "object, quick up, percent down", Metrics: []metric{object(queue, average, 3, noise(ramps, 0.9))}, Up: quickUp, Down: percentDown},
		{Name: "object value", Metrics: []metric{object(queue, value, 40, noise(steps, 0.2))}, Up: refUp, Down: quickDown, start: 75 * time.Second},
		{Name: "never down", Metrics: []metric{object(queue, average, 10, noise(steps, 0.3))}, Up: slowUp, Down: never},
		{Name: "never up, begins above the maximum", Metrics: []metric{object(queue, average, 10, gaps(steps))}, Up: never, Down: percentDown, first: 20},
		{Name: "begins below the minimum", Metrics: []metric{shared(queue, 10, noise(ramps, 0.1), 2)}, Up: quickUp, Down: percentDown, first: 1, start: 10 * time.Second},
	}
	for _, s := range list {
		s.Min, s.Max = 2, 16
		if s.first == 0 {
			s.first = 2
		}
	}
	return list
}
