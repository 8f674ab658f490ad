package elastic

import (
	"time"

	"modeldock.io/internal/modelspec"
)

// Names of the metrics, as autoscalers outside see them.
const (
	MetricQueue   = "inference_request_queue_depth"
	MetricMemory  = "gpu_memory_utilization_percent"
	MetricKVCache = "kv_cache_utilization_percent"
	MetricLatency = "inference_latency_p99_milliseconds"
	// MetricDemand is waiting and running requests together: what a queue
	// alone does not show of a model that takes one request at a time.
	MetricDemand = "inference_demand"
	// MetricOffered is how many requests would be running if none had to wait
	// (arrivals of the last mean service time, Little's law): a backlog that
	// piles up while a replica loads does not order more of them. Where it is
	// not measured, MetricDemand takes its place.
	MetricOffered = "inference_offered_load"
	// MetricRunning is running requests alone.
	MetricRunning = "inference_requests_running"
)

// Concurrency is how many requests a replica of a class serves at once unless
// it was measured: large memory and few callers, or the opposite.
func Concurrency(c modelspec.Class) int {
	switch c {
	case modelspec.ClassVision:
		return 16
	case modelspec.ClassRecommender:
		return 64
	default:
		return 8
	}
}

// TargetShare is the share of a replica's concurrency that a workload aims at:
// latency pays for what online leaves free, and nothing for batch's.
func TargetShare(w modelspec.Workload) float64 {
	if w == modelspec.WorkloadBatch {
		return 0.95
	}
	return 0.5
}

// Reference is the policy of deploy/examples/hpa.yaml.
func Reference() Spec {
	return Spec{Min: 2, Max: 16,
		Metrics: []Metric{{Name: MetricQueue, Kind: PodsAverage, Target: 10}, {Name: MetricMemory, Kind: PodsAverage, Target: 80}},
		Behavior: Behavior{
			Up:   Rules{Window: 30 * time.Second, Policies: []Policy{{Value: 4, Period: time.Minute}}, Tolerance: 0.1},
			Down: Rules{Window: 5 * time.Minute, Policies: []Policy{{Value: 1, Period: 2 * time.Minute}}, Tolerance: 0.1},
		}}
}

// For is the bundle of a class and a workload, for a model whose replicas
// serve concurrency requests at once (0: the class's). Every field may be
// overridden; the count of replicas is the caller's. Once it is measured how
// long a replica takes to start, Paced fits the bundle to that.
func For(class modelspec.Class, workload modelspec.Workload, concurrency int) Spec {
	if concurrency <= 0 {
		concurrency = Concurrency(class)
	}
	s := Reference()
	demand := max(1, float64(concurrency)*TargetShare(workload))
	s.Metrics = []Metric{{Name: MetricOffered, Kind: ObjectAverage, Target: demand}}
	if class == modelspec.ClassLLM {
		// Engines of this class take nearly all memory at their start.
		s.Metrics = append(s.Metrics, Metric{Name: MetricKVCache, Kind: PodsAverage, Target: 80})
	} else {
		s.Metrics = append(s.Metrics, Metric{Name: MetricMemory, Kind: PodsAverage, Target: 80})
	}
	if workload == modelspec.WorkloadOnline {
		s.Behavior.Up.Window = 0
		s.Behavior.Up.Policies = []Policy{{Value: 4, Period: 15 * time.Second}, {Percent: true, Value: 100, Period: 15 * time.Second}}
		s.Behavior.Down.Policies = []Policy{{Value: 2, Period: time.Minute}, {Percent: true, Value: 50, Period: time.Minute}}
		s.Behavior.Down.Window = 2 * time.Minute
		s.Idle, s.Keep = 15*time.Minute, 20*time.Minute
	} else {
		s.Behavior.Down.Window = time.Minute
		s.Behavior.Down.Policies = []Policy{{Percent: true, Value: 100, Period: 15 * time.Second}}
		s.Idle = time.Minute
	}
	return s
}

// MemoryAboveIdle is memory use in percent of what the idle model leaves free:
// of a class that does not preallocate, weights alone must not hold the floor.
func MemoryAboveIdle(used, idle, total float64) float64 {
	if total <= idle {
		return 0
	}
	return 100 * max(0, used-idle) / (total - idle)
}

// Warning says what is unwise about a policy, blank if nothing.
func Warning(class modelspec.Class, s Spec) string {
	for _, m := range s.Metrics {
		if class == modelspec.ClassLLM && m.Name == MetricMemory {
			return "engines of class llm preallocate about 90 % of a card: " + MetricMemory + " stays high without traffic and holds replicas up to the maximum; " + MetricKVCache + " follows the load"
		}
	}
	return ""
}
