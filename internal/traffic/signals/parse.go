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
)

// figureOf knows the metrics of vLLM (and of the simulated engine, which uses
// its names), SGLang, llama.cpp, Triton and TGI. Ollama has no such metrics.
func figureOf(name []byte) figure {
	switch string(name) { // compiled without a copy
	case "vllm:num_requests_waiting", "sglang:num_queue_reqs", "llamacpp:requests_deferred",
		"nv_inference_pending_request_count", "tgi_queue_size":
		return waiting
	case "vllm:num_requests_running", "sglang:num_running_reqs", "llamacpp:requests_processing", "tgi_batch_current_size":
		return running
	case "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage", "llamacpp:kv_cache_usage_ratio":
		return kvUsage
	}
	return unknown
}

// parse reads an engine's metrics in Prometheus' text format; false if none of
// them is known. Several series of one metric are several models or ranks:
// their queues add up, the fullest cache counts.
func parse(text []byte) (s route.Signal, known bool) {
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
		known = true
		switch f {
		case waiting:
			s.Waiting += count(v)
		case running:
			s.Running += count(v)
		case kvUsage:
			s.KVUsage = max(s.KVUsage, min(max(v, 0), 1))
		case unknown:
		}
	}
	return s, known
}

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
func count(v float64) int { return int(min(max(v, 0), 1<<20)) }
