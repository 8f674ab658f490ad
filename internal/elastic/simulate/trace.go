package simulate

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Request is one arrival.
type Request struct {
	At             time.Duration // since the trace's begin
	Prompt, Answer int           // tokens
}

// maxRequests bounds what a trace becomes in memory.
const maxRequests = 20_000_000

// Mean tokens of requests whose trace knows only rates.
const (
	ratePrompt = 1000
	rateAnswer = 200
)

// Read reads a trace in one of these formats, told by its head: Azure's
// (TIMESTAMP,ContextTokens,GeneratedTokens), Mooncake's
// (timestamp_ms,input_length,output_length) and ServeGen's rates per window
// (timestamp_s,rate_rps,cv,… or timestamp_s,requests_per_s,…), from which
// arrivals are drawn with the seed.
func Read(from io.Reader, seed uint64) ([]Request, error) {
	lines := csv.NewReader(from)
	lines.ReuseRecord = true
	head, err := lines.Read()
	if err != nil {
		return nil, fmt.Errorf("read the trace's head: %w", err)
	}
	title := strings.Join(head, ",")
	row := rows(title)
	if row == nil {
		return nil, fmt.Errorf("a trace begins with TIMESTAMP,ContextTokens,GeneratedTokens or timestamp_ms,input_length,output_length or timestamp_s,rate_rps,cv,…; this one begins with %q", title)
	}
	var trace []Request
	var windows []window
	for n := 2; ; n++ {
		fields, err := lines.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = row(fields, &trace, &windows)
		}
		if err != nil {
			return nil, fmt.Errorf("read line %d of the trace: %w", n, err)
		}
	}
	if len(windows) > 0 {
		if trace, err = draw(windows, seed); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(trace, func(a, b Request) int { return int(max(-1, min(1, a.At-b.At))) })
	if len(trace) > 0 && len(windows) == 0 {
		begin := trace[0].At
		for i := range trace {
			trace[i].At -= begin
		}
	}
	return trace, nil
}

// window is a time with one rate.
type window struct {
	at       time.Duration
	rate, cv float64
}

type reader func(fields []string, trace *[]Request, windows *[]window) error

func rows(title string) reader {
	switch {
	case title == "TIMESTAMP,ContextTokens,GeneratedTokens":
		return func(f []string, trace *[]Request, _ *[]window) error {
			at, err := time.Parse("2006-01-02 15:04:05.9999999", f[0])
			return errors.Join(err, add(trace, time.Duration(at.UnixNano()), f[1], f[2]))
		}
	case title == "timestamp_ms,input_length,output_length":
		return func(f []string, trace *[]Request, _ *[]window) error {
			at, err := strconv.ParseInt(f[0], 10, 64)
			return errors.Join(err, add(trace, time.Duration(at)*time.Millisecond, f[1], f[2]))
		}
	case strings.HasPrefix(title, "timestamp_s,rate_rps,cv"), strings.HasPrefix(title, "timestamp_s,requests_per_s"):
		return func(f []string, _ *[]Request, windows *[]window) error {
			at, err1 := strconv.ParseFloat(f[0], 64)
			w := window{at: time.Duration(at * float64(time.Second)), cv: 1}
			var err2, err3 error
			w.rate, err2 = strconv.ParseFloat(f[1], 64)
			if strings.Contains(title, ",cv") {
				w.cv, err3 = strconv.ParseFloat(f[2], 64)
			}
			*windows = append(*windows, w)
			return errors.Join(err1, err2, err3)
		}
	}
	return nil
}

func add(trace *[]Request, at time.Duration, prompt, answer string) error {
	p, err1 := strconv.Atoi(prompt)
	a, err2 := strconv.Atoi(strings.TrimSpace(answer))
	if err1 == nil && err2 == nil && (p < 0 || a < 0) {
		return fmt.Errorf("%d and %d tokens: neither can be negative", p, a)
	}
	*trace = append(*trace, Request{at, p, a})
	return errors.Join(err1, err2)
}

// draw makes arrivals of windows' rates. A coefficient of variation above 1
// becomes groups of arrivals: of mean size (cv²+1)/2 at Poisson times, whose
// counts vary as those gaps make them.
func draw(windows []window, seed uint64) ([]Request, error) {
	r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // repeatable, no secret
	length := 10 * time.Minute
	if len(windows) > 1 {
		length = windows[1].at - windows[0].at
	}
	var trace []Request
	for _, w := range windows {
		if !(w.rate >= 0) || math.IsInf(w.rate, 0) || len(trace) > maxRequests {
			return nil, fmt.Errorf("draw the arrivals at %s: %g requests per second, %d requests so far; at most %d in all", w.at, w.rate, len(trace), maxRequests)
		}
		if w.rate == 0 {
			continue
		}
		group := max(1, min((w.cv*w.cv+1)/2, 200))
		for at := r.ExpFloat64() * group / w.rate; at < length.Seconds(); at += r.ExpFloat64() * group / w.rate {
			size := 1
			for r.Float64() > 1/group {
				size++
			}
			for range size {
				trace = append(trace, Request{w.at + time.Duration(at*float64(time.Second)), int(ratePrompt * r.ExpFloat64()), int(rateAnswer * r.ExpFloat64())})
			}
		}
	}
	return trace, nil
}

// Thin keeps a share of the requests, evenly.
func Thin(trace []Request, share float64) []Request {
	kept := make([]Request, 0, int(float64(len(trace))*share)+1)
	for i, q := range trace {
		if math.Floor(float64(i+1)*share) > math.Floor(float64(i)*share) {
			kept = append(kept, q)
		}
	}
	return kept
}
