// Package app is the composition: it chooses the adapters and wires the three
// accounts into processes. Only cmd imports it.
package app

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery/local/procfs"
	"modeldock.io/internal/device"
	"modeldock.io/internal/traffic/gateway"
)

// UpOptions are the flags of `modeldock up`.
type UpOptions struct {
	Listen    string
	OpsListen string // health, metrics, profiles; empty: on the main listener, to this machine's people
	DataDir   string
	Store     string // "sqlite", "json:FILE" or "mysql"
	MySQLDSN  string // with Store "mysql"; see sqlledger.OpenMySQL. A secret
	MoveHere  bool   // with Store "mysql": the ledger's models ran elsewhere until now
	Cards     string // simulated cards, for example "2x24576"; empty: see device
	Manual    bool   // the loops stand still; `modeldock step` runs them
	NoDemo    bool
	Insecure  bool // listen beyond loopback without TLS
	TLS       CertificateFiles
	HeadWait  time.Duration
	StopGrace time.Duration
	Counts    CountOptions
	Scaling   ScalingOptions
	// AsleepMiB is the host memory that engines may keep models in which sleep;
	// 0: none does, below it: AsleepShare of the machine's.
	AsleepMiB int64
	Bounds    budget.Bounds // of what one tenant may have stored
	// Connections are the most callers at once.
	Connections int
	Proxies     []string // addresses or networks whose connections are many callers'
	// BodyMiB bounds the memory for bodies of requests to models.
	BodyMiB   int
	AccessLog io.Writer // gets one line for each call of a model; nil for none
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
		Counts:    DefaultCountOptions(),
		Scaling:   DefaultScalingOptions(),
		AsleepMiB: -1,
		Bounds:    budget.DefaultBounds(), Connections: gateway.DefaultConnections,
		BodyMiB: defaultBodyMiB,
	}
}

// asleepShare is the part of the machine's memory that sleeping engines may
// take unless somebody says how much: what models load and ModelDock itself
// have to find room beside them.
const asleepShare = 4

// asleepMemory is how much host memory sleeping engines may take.
func (o UpOptions) asleepMemory() (int64, error) {
	if o.AsleepMiB >= 0 {
		return o.AsleepMiB, nil
	}
	have, err := procfs.ReadMemory()
	if err != nil {
		return 0, fmt.Errorf("find out how much memory sleeping engines may take: %w; say it by --asleep-memory", err)
	}
	return have.TotalMiB / asleepShare, nil
}

func validateConnections(most int) error {
	if most < 1 {
		return fmt.Errorf("--max-connections must be at least 1; got %d", most)
	}
	return nil
}

func validateProxies(proxies []string) error {
	var errs []error
	for _, text := range proxies {
		if _, err := proxyNetwork(text); err != nil {
			errs = append(errs, fmt.Errorf("--proxies must be addresses or networks such as 10.0.0.7 or 10.0.0.0/24; got %q", text))
		}
	}
	return errors.Join(errs...)
}

func proxyNetwork(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	return netip.ParsePrefix(text)
}

// connectionBounds are those of validated options.
func connectionBounds(most int, proxies []string) gateway.ConnectionBounds {
	b := gateway.ConnectionBounds{Most: most}
	for _, text := range proxies {
		if network, err := proxyNetwork(text); err == nil {
			b.Proxies = append(b.Proxies, network)
		}
	}
	return b
}

const (
	defaultBodyMiB = gateway.DefaultBodyMemory >> 20
	// leastBodyMiB lets in one body of the largest size.
	leastBodyMiB = 2 * gateway.DefaultMaxBody >> 20
)

func validateBodies(mib int) error {
	if mib < leastBodyMiB {
		return fmt.Errorf("--max-body-memory must be at least %d MiB, or a body of %d MiB never finds room; got %d", leastBodyMiB, gateway.DefaultMaxBody>>20, mib)
	}
	return nil
}

func validateBounds(b budget.Bounds) error {
	if b.Waiting < 1 || b.Requests < 1 || b.Grants < 1 {
		return fmt.Errorf("--max-waiting, --max-requests and --max-grants must be at least 1; got %d, %d and %d", b.Waiting, b.Requests, b.Grants)
	}
	return nil
}

const (
	storeSQLite = "sqlite"
	storeJSON   = "json:"
	storeMySQL  = "mysql"
)

// Validate returns every error at once, each saying what to write instead.
func (o UpOptions) Validate() error {
	errs := []error{validateListen("--listen", o.Listen, o.Insecure || o.TLS.given()), o.TLS.validate()}
	errs = append(errs, o.validateStore(), o.Counts.Validate(), o.Scaling.validate(), validateBounds(o.Bounds), validateConnections(o.Connections), validateBodies(o.BodyMiB), validateProxies(o.Proxies))
	if o.OpsListen != "" {
		errs = append(errs, validateListen("--ops-listen", o.OpsListen, o.Insecure))
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
	if o.AsleepMiB < -1 {
		errs = append(errs, fmt.Errorf("--asleep-memory must be MiB, 0 for none or -1 for a quarter of the machine's; got %d", o.AsleepMiB))
	}
	if have, err := procfs.ReadMemory(); err == nil && o.AsleepMiB > have.TotalMiB {
		errs = append(errs, fmt.Errorf("--asleep-memory is %d MiB, and the machine has %d", o.AsleepMiB, have.TotalMiB))
	}
	return errors.Join(errs...)
}

func validateListen(flag, listen string, insecure bool) error {
	host, port, err := net.SplitHostPort(listen)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s must be HOST:PORT, for example 127.0.0.1:8080; got %q", flag, listen)
	case !loopback(host) && !insecure && flag != "--listen":
		return fmt.Errorf("%s %s is not a loopback address and has no TLS: add --insecure if that is meant, where the network keeps strangers away", flag, listen)
	case !loopback(host) && !insecure:
		return fmt.Errorf("--listen %s is not a loopback address and there is no TLS: keys and prompts would travel in the clear; name a certificate by --tls-cert and --tls-key, or add --insecure if that is meant", listen)
	}
	return nil
}

func (o UpOptions) validateStore() error {
	switch {
	case o.Store == storeMySQL && o.MySQLDSN == "":
		return errNoDSN
	case o.Store == storeMySQL, o.Store == storeSQLite, strings.HasPrefix(o.Store, storeJSON) && o.Store != storeJSON:
		return nil
	}
	return fmt.Errorf("--store must be sqlite, json:FILE or mysql; got %q", o.Store)
}

// DSNVariable names the environment variable with the database's DSN.
const DSNVariable = "MODELDOCK_MYSQL_DSN"

var errNoDSN = errors.New("the MySQL or MariaDB database is not named: put user:password@tcp(host:port)/database into " + DSNVariable + ", or into a file named by --mysql-dsn-file")

// onLoopback reports whether only this machine can reach the listener.
func (o UpOptions) onLoopback() bool { return onLoopback(o.Listen) }

func onLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	return err == nil && loopback(host)
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
