package signals

import (
	"bytes"
	"math"
	"strconv"

	"modeldock.io/internal/traffic/route"
)

// figure is what one metric of an engine says.
type figure int8

const (
	unknown figure = iota
	waiting
	running
	kvUsage
	memoryUsed
	memoryTotal
)

// figureOf knows the metrics of vLLM by their new and old names (the simulated
// engine uses them too), SGLang, llama.cpp, Triton, TensorRT-LLM and TGI.
// Ollama has no such metrics; the gateways' own counts are all that is known.
func figureOf(name []byte) figure {
	switch string(name) { // compiled without a copy
	case "vllm:num_requests_waiting", "sglang:num_queue_reqs", "llamacpp:requests_deferred",
		"nv_inference_pending_request_count", "trtllm_num_requests_waiting", "tgi_queue_size":
		return waiting
	case "vllm:num_requests_running", "sglang:num_running_reqs", "llamacpp:requests_processing",
		"trtllm_num_requests_running", "tgi_batch_current_size":
		return running
	case "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage", "llamacpp:kv_cache_usage_ratio",
		"trtllm_kv_cache_utilization":
		return kvUsage
	case "nv_gpu_memory_used_bytes":
		return memoryUsed
	case "nv_gpu_memory_total_bytes":
		return memoryTotal
	}
	return unknown
}

// parse reads an engine's metrics in Prometheus' text format; false if none of
// them is known. Several series of one metric are several models or ranks:
// their queues add up, the fullest cache counts. A value that is not a number
// says nothing.
func parse(text []byte) (s route.Signal, known bool) {
	var used, total route.Figure
	for len(text) > 0 {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte("\n"))
		name := line
		if end := bytes.IndexAny(line, "{ \t"); end >= 0 {
			name = line[:end]
		}
		f := figureOf(name)
		if f == unknown {
			continue
		}
		v, ok := valueOf(line[len(name):])
		if !ok {
			continue
		}
		switch f {
		case waiting:
			s.Waiting = plus(s.Waiting, count(v))
		case running:
			s.Running = plus(s.Running, count(v))
		case kvUsage:
			s.KVUsage = route.Known(max(s.KVUsage.Value, min(max(v, 0), 1)))
		case memoryUsed:
			used = plus(used, size(v))
		case memoryTotal:
			total = plus(total, size(v))
		case unknown:
		}
	}
	if used.Known && total.Value > 0 {
		s.Memory = route.Known(min(used.Value/total.Value, 1))
	}
	return s, s != (route.Signal{})
}

func plus(f route.Figure, v float64) route.Figure { return route.Known(f.Value + v) }

// valueOf reads what follows a metric's name: labels, the value, perhaps a
// time.
func valueOf(rest []byte) (float64, bool) {
	if len(rest) > 0 && rest[0] == '{' {
		rest = rest[bytes.LastIndexByte(rest, '}')+1:]
	}
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(fields[0]), 64)
	return v, err == nil && !math.IsNaN(v)
}

// count is a gauge as a number of requests, within bounds that sums cannot
// leave.
func count(v float64) float64 { return math.Floor(min(max(v, 0), 1<<20)) }

// size is a gauge of bytes, within bounds that sums cannot leave.
func size(v float64) float64 { return min(max(v, 0), 1<<60) }
