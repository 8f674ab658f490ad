package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// profiledEach is for how long processes are watched for each object: so long
// its start takes for sure.
const profiledEach = 80 * time.Millisecond

// profile begins to take the CPU profiles of the API server and of our
// processes, in files whose names begin with the round's. What it returns waits
// for them.
func (s *stage) profile(ctx context.Context, round string) (wait func() error) {
	if s.plan.profiles == "" {
		return func() error { return nil }
	}
	seconds := strconv.Itoa(max(1, int((time.Duration(s.plan.objects) * profiledEach).Seconds())))
	took := make(chan error)
	waits := 1
	go func() {
		body, err := s.client.Discovery().RESTClient().Get().AbsPath("/debug/pprof/profile").Param("seconds", seconds).DoRaw(ctx)
		took <- s.keep(round+"kube-apiserver", body, err)
	}()
	for _, p := range append(slices.Clone(s.dock.Controllers), s.dock.Gateways...) {
		waits++
		go func() {
			body, err := get(ctx, p.Ops+"/debug/pprof/profile?seconds="+seconds)
			took <- s.keep(round+p.Name, body, err)
		}()
	}
	return func() error {
		var errs []error
		for range waits {
			errs = append(errs, <-took)
		}
		return errors.Join(errs...)
	}
}

func (s *stage) keep(name string, profile []byte, err error) error {
	if err == nil {
		err = os.WriteFile(filepath.Join(s.plan.profiles, name+".pprof"), profile, 0o600)
	}
	if err != nil {
		return fmt.Errorf("profile %s: %w", name, err)
	}
	return nil
}

// get reads what an address answers.
func get(ctx context.Context, url string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it is only read
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", url, resp.Status)
	}
	return io.ReadAll(resp.Body)
}
