package simulate

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
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

// Read reads a trace in one of these formats, told by its head: Azure's
// (TIMESTAMP,ContextTokens,GeneratedTokens), Mooncake's
// (timestamp_ms,input_length,output_length) and ServeGen's rates per window
// (timestamp_s,rate_rps,cv,pattern,shape,… or timestamp_s,requests_per_s,…),
// from which arrivals are drawn with the seed. Of a share below 1 it keeps that
// part of the requests, evenly; rates become that much lower and as bursty.
func Read(from io.Reader, seed uint64, share float64) ([]Request, error) {
	return ReadAtMost(from, seed, share, maxRequests)
}

// ReadAtMost is Read of a trace that may be anybody's: it fails as soon as
// there are more than most requests.
func ReadAtMost(from io.Reader, seed uint64, share float64, most int) ([]Request, error) {
	if !(share > 0 && share <= 1) {
		return nil, fmt.Errorf("the share of requests to keep is %g; it must be above 0 and at most 1", share)
	}
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
		if len(trace) > most {
			return nil, fmt.Errorf("the trace has more than %d requests: replay a part of it", most)
		}
	}
	if len(windows) > 0 {
		for i := range windows {
			windows[i].rate *= share
		}
		return draw(windows, seed, most)
	}
	slices.SortStableFunc(trace, func(a, b Request) int { return int(max(-1, min(1, a.At-b.At))) })
	if len(trace) > 0 {
		begin := trace[0].At
		for i := range trace {
			trace[i].At -= begin
		}
	}
	return thin(trace, share), nil
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
			w := window{at: time.Duration(at * float64(time.Second)), shape: 1}
			var err2, err3 error
			w.rate, err2 = strconv.ParseFloat(f[1], 64)
			if strings.Contains(title, ",cv") && w.rate > 0 {
				err3 = w.spread(f)
			}
			*windows = append(*windows, w)
			return errors.Join(err1, err2, err3)
		}
	}
	return nil
}

// spread takes the gaps' distribution from cv,pattern,shape; without a pattern
// it is the Gamma of that coefficient of variation.
func (w *window) spread(f []string) (err error) {
	if len(f) > 4 && f[3] != "" {
		w.weibull = f[3] == "Weibull"
		w.shape, err = strconv.ParseFloat(f[4], 64)
		return err
	}
	cv, err := strconv.ParseFloat(f[2], 64)
	if cv > 0 {
		w.shape = 1 / (cv * cv)
	}
	return err
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

// thin keeps a share of the requests, evenly.
func thin(trace []Request, share float64) []Request {
	kept := make([]Request, 0, int(float64(len(trace))*share)+1)
	for i, q := range trace {
		if math.Floor(float64(i+1)*share) > math.Floor(float64(i)*share) {
			kept = append(kept, q)
		}
	}
	return kept
}
