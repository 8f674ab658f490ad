package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// measurement is one figure; run does one round on one side.
type measurement struct {
	name, unit string
	target     float64 // bound of the ratio
	rounds     int
	run        func(ctx context.Context, s *side) (float64, error)
}

func measurements(quick bool) []measurement {
	scale, rounds := 3, 7
	if quick {
		scale, rounds = 1, 3
	}
	small, large := body(1<<10), body(400_000)
	return []measurement{
		{"request_1kib", "µs CPU", 1.5, rounds, func(ctx context.Context, s *side) (float64, error) {
			return cpuPer(ctx, s, load{clients: 8, each: 500 * scale, request: request(small)}, 1)
		}},
		// Four events in one write every 10 ms.
		{"sse_bunched_event", "µs CPU", 1.0, rounds, func(ctx context.Context, s *side) (float64, error) {
			events := 4 * 70 * scale
			return cpuPer(ctx, s, load{clients: 100, each: 1, request: request(small, eventsHeader, events, bunchHeader, 4, paceHeader, 10_000)}, events)
		}},
		// As fast as the engine can write: little is left but system calls and
		// looking at each event, which the baseline does not.
		{"sse_flood_event", "µs CPU", 1.5, rounds, func(ctx context.Context, s *side) (float64, error) {
			const events = 4000
			return cpuPer(ctx, s, load{clients: 4, each: 20 * scale, request: request(small, eventsHeader, events, bunchHeader, 10)}, events)
		}},
		{"sse_paced_event", "µs CPU", 1.0, rounds, func(ctx context.Context, s *side) (float64, error) {
			events := 70 * scale
			return cpuPer(ctx, s, load{clients: 100, each: 1, request: request(small, eventsHeader, events, bunchHeader, 1, paceHeader, 10_000)}, events)
		}},
		{"body_400kb", "µs CPU", 1.2, rounds, func(ctx context.Context, s *side) (float64, error) {
			return cpuPer(ctx, s, load{clients: 4, each: 100 * scale, request: request(large)}, 1)
		}},
		{"rss_1000_streams", "MiB", 0.8, min(rounds, 3), func(ctx context.Context, s *side) (float64, error) {
			return memory(ctx, s, load{clients: 1000, each: 1, request: request(small, eventsHeader, 15, bunchHeader, 1, paceHeader, 100_000)})
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
	return fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nUser-Agent: bench\r\n%sContent-Length: %d\r\n\r\n%s", benchKey, extra.String(), len(body), body)
}

// load is what one round sends: each of the clients, on one connection, sends
// the request some times, one after the other.
type load struct {
	clients, each int
	request       string
}

// cpuPer is the side's CPU time per unit of work, in microseconds.
func cpuPer(ctx context.Context, s *side, l load, unitsPerRequest int) (float64, error) {
	before, err := cpuTime(s.command.Process.Pid)
	if err != nil {
		return 0, err
	}
	if err := l.run(ctx, s.address, nil); err != nil {
		return 0, err
	}
	after, err := cpuTime(s.command.Process.Pid)
	if err != nil {
		return 0, err
	}
	units := l.clients * l.each * unitsPerRequest
	return float64((after - before).Microseconds()) / float64(units), nil
}

// memory is the side's resident memory while all streams run.
func memory(ctx context.Context, s *side, l load) (float64, error) {
	var began sync.WaitGroup
	began.Add(l.clients)
	failed := make(chan error, 1)
	go func() { failed <- l.run(ctx, s.address, began.Done) }()
	all := make(chan struct{})
	go func() { began.Wait(); close(all) }()
	select {
	case <-all:
	case err := <-failed:
		return 0, errors.Join(errors.New("the streams ended before all of them ran"), err)
	}
	mib, err := residentMiB(s.command.Process.Pid)
	return mib, errors.Join(err, <-failed)
}

// run sends the load and checks every answer. began is called by each client
// at the first bytes of its first answer.
func (l load) run(ctx context.Context, address string, began func()) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Minute, errors.New("a round took two minutes"))
	defer cancel()
	failed := make(chan error, l.clients)
	for range l.clients {
		go func() { failed <- l.client(ctx, address, began) }()
	}
	var all []error
	for range l.clients {
		all = append(all, <-failed)
	}
	return errors.Join(all...)
}

func (l load) client(ctx context.Context, address string, began func()) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("dial: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	reader := bufio.NewReaderSize(conn, 8<<10)
	for range l.each {
		if _, err := io.WriteString(conn, l.request); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		if err := readAnswer(reader, began); err != nil {
			return err
		}
		began = nil
	}
	return nil
}
