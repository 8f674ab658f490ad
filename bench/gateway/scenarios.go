package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// measurement is one figure; run does one round on one side.
type measurement struct {
	name, unit string
	target     float64 // bound of the ratio to ReverseProxy
	rounds     int
	direct     bool // the engine itself is measured too, and its value taken off
	run        func(ctx context.Context, s *side) (float64, error)
}

func measurements(quick bool, engine *engine) []measurement {
	scale, rounds, streams := 3, 7, 5000
	if quick {
		scale, rounds, streams = 1, 3, 1000
	}
	small, large := body(1<<10), body(400_000)
	return []measurement{
		{name: "request_1kib", unit: "µs CPU", target: 1.5, rounds: rounds, run: func(ctx context.Context, s *side) (float64, error) {
			return cpuPer(ctx, s, load{clients: 8, each: 500 * scale, request: request(small)}, 1)
		}},
		// Four events in one write every 10 ms.
		{name: "sse_bunched_event", unit: "µs CPU", target: 1.0, rounds: rounds, run: func(ctx context.Context, s *side) (float64, error) {
			events := 4 * 70 * scale
			return cpuPer(ctx, s, load{clients: 100, each: 1, request: request(small, eventsHeader, events, bunchHeader, 4, paceHeader, 10_000)}, events)
		}},
		// As fast as the engine can write: little is left but system calls and
		// looking at each event, which the baseline does not.
		{name: "sse_flood_event", unit: "µs CPU", target: 1.5, rounds: rounds, run: func(ctx context.Context, s *side) (float64, error) {
			const events = 4000
			return cpuPer(ctx, s, load{clients: 4, each: 20 * scale, request: request(small, eventsHeader, events, bunchHeader, 10)}, events)
		}},
		{name: "sse_paced_event", unit: "µs CPU", target: 1.0, rounds: rounds, run: func(ctx context.Context, s *side) (float64, error) {
			events := 70 * scale
			return cpuPer(ctx, s, load{clients: 100, each: 1, request: request(small, eventsHeader, events, bunchHeader, 1, paceHeader, 10_000)}, events)
		}},
		{name: "body_400kb", unit: "µs CPU", target: 1.2, rounds: rounds, run: func(ctx context.Context, s *side) (float64, error) {
			return cpuPer(ctx, s, load{clients: 4, each: 100 * scale, request: request(large)}, 1)
		}},
		// What is added to the engine's own time, in an open loop.
		{name: "added_first_byte_200_per_s", unit: "ms p50", target: 1.5, rounds: rounds, direct: true, run: func(ctx context.Context, s *side) (float64, error) {
			return firstByte(ctx, s, request(small, eventsHeader, 4, bunchHeader, 4), 200, time.Duration(scale)*time.Second)
		}},
		// One event per second in each of them.
		{name: fmt.Sprintf("rss_%d_streams", streams), unit: "MiB", target: 0.8, rounds: min(rounds-1, 3), run: func(ctx context.Context, s *side) (float64, error) {
			const hour = 3600
			return memory(ctx, s, engine, time.Duration(scale)*time.Second, load{clients: streams, each: 1, request: request(small, eventsHeader, hour, bunchHeader, 1, paceHeader, 1_000_000)})
		}},
	}
}

// body is a chat request of about n bytes.
func body(n int) string {
	const frame = `{"model":"chat-0","messages":[{"role":"user","content":"%s"}],"stream":%s,"temperature":0.7}`
	return fmt.Sprintf(frame, strings.Repeat("word ", (n-len(frame))/5), "STREAM")
}

// request is the whole request as it goes over the wire, head and body.
func request(body string, header ...any) string {
	stream := "false"
	var extra strings.Builder
	for i := 0; i+1 < len(header); i += 2 {
		stream = "true"
		fmt.Fprintf(&extra, "%v: %v\r\n", header[i], header[i+1])
	}
	body = strings.Replace(body, "STREAM", stream, 1)
	return fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\n"+hostLine+"Authorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nUser-Agent: bench\r\n%sContent-Length: %d\r\n\r\n%s", benchKey, extra.String(), len(body), body)
}

// hostLine is what a side's own header lines stand after.
const hostLine = "Host: bench\r\n"

// forSide adds what the side has to be told.
func (s *side) forSide(request string) string {
	return strings.Replace(request, hostLine, hostLine+s.header, 1)
}

// cpuPer is the side's CPU time per unit of work, in microseconds.
func cpuPer(ctx context.Context, s *side, l load, unitsPerRequest int) (float64, error) {
	l.each = max(l.each/s.share, 1)
	before, err := cpuTime(s.command.Process.Pid)
	if err != nil {
		return 0, err
	}
	if err := l.run(ctx, s, nil); err != nil {
		return 0, err
	}
	after, err := cpuTime(s.command.Process.Pid)
	if err != nil {
		return 0, err
	}
	units := l.clients * l.each * unitsPerRequest
	return float64((after - before).Microseconds()) / float64(units), nil
}

// memory is the side's resident memory while all streams run, and have done so
// for a while.
func memory(ctx context.Context, s *side, e *engine, settled time.Duration, l load) (float64, error) {
	var began sync.WaitGroup
	began.Add(l.clients)
	streaming, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	failed := make(chan error, 1)
	go func() { failed <- l.run(streaming, s, began.Done) }()
	all := make(chan struct{})
	go func() { began.Wait(); close(all) }()
	select {
	case <-all:
	case err := <-failed:
		return 0, errors.Join(errors.New("the streams ended before all of them ran"), err)
	}
	select {
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-time.After(settled):
	}
	mib, err := residentMiB(s.command.Process.Pid)
	leave(errMeasured)
	if left := <-failed; !errors.Is(left, errMeasured) {
		err = errors.Join(err, left)
	}
	return mib, errors.Join(err, e.idle(ctx))
}

// errMeasured is why the callers leave.
var errMeasured = errors.New("enough was seen")
