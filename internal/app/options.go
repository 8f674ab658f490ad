// Package app is the composition: it chooses the adapters and wires the three
// accounts into processes. Only cmd imports it.
package app

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/device"
)

// UpOptions are the flags of `modeldock up`.
type UpOptions struct {
	Listen    string
	DataDir   string
	Store     string // "sqlite" or "json:FILE"
	Cards     string // simulated cards, for example "2x24576"; empty: see device
	Manual    bool   // the loops stand still; `modeldock step` runs them
	NoDemo    bool
	Insecure  bool // listen beyond loopback without TLS
	HeadWait  time.Duration
	StopGrace time.Duration
	Version   string
	// Executable is the binary that supervises models; this one.
	Executable string
}

// DefaultUpOptions are the defaults of every flag.
func DefaultUpOptions() UpOptions {
	return UpOptions{
		Listen:    "127.0.0.1:8080",
		DataDir:   "./data",
		Store:     storeSQLite,
		HeadWait:  budget.DefaultHeadWait,
		StopGrace: 30 * time.Second,
	}
}

const (
	storeSQLite = "sqlite"
	storeJSON   = "json:"
)

// Validate returns every error at once, each saying what to write instead.
func (o UpOptions) Validate() error {
	var errs []error
	host, port, err := net.SplitHostPort(o.Listen)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	switch {
	case err != nil:
		errs = append(errs, fmt.Errorf("--listen must be HOST:PORT, for example 127.0.0.1:8080; got %q", o.Listen))
	case !loopback(host) && !o.Insecure:
		errs = append(errs, fmt.Errorf("--listen %s is not a loopback address and there is no TLS: keys and prompts would travel in the clear; add --insecure if that is meant", o.Listen))
	}
	if o.Store != storeSQLite && (!strings.HasPrefix(o.Store, storeJSON) || o.Store == storeJSON) {
		errs = append(errs, fmt.Errorf("--store must be sqlite or json:FILE; got %q", o.Store))
	}
	if o.Cards != "" {
		if _, err := device.ParseCards("", o.Cards); err != nil {
			errs = append(errs, fmt.Errorf("--%w", err))
		}
	}
	if o.DataDir == "" {
		errs = append(errs, errors.New("--data-dir must not be empty"))
	}
	if o.HeadWait < 0 || o.StopGrace < 0 {
		errs = append(errs, errors.New("--head-wait and --stop-grace must not be negative"))
	}
	return errors.Join(errs...)
}

// onLoopback reports whether only this machine can reach the listener.
func (o UpOptions) onLoopback() bool {
	host, _, err := net.SplitHostPort(o.Listen)
	return err == nil && loopback(host)
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
