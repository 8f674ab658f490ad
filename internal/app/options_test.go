package app

import (
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

func TestOptionsTellEveryErrorAtOnce(t *testing.T) {
	t.Parallel()
	if err := DefaultUpOptions().Validate(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	err := UpOptions{Listen: "here", Store: "json:", Cards: "2y5", HeadWait: -1, BodyMiB: 63, AsleepMiB: -2, Proxies: []string{"10.0.0.0/24", "::1", "balancer"}, Counts: CountOptions{RedisURL: "redis://u:geheim@[::1/"}}.Validate()
	if err != nil && strings.Contains(err.Error(), "geheim") {
		t.Errorf("a password is shown: %v", err)
	}
	for _, flag := range []string{"Redis", "--gateways", "--cache-mib", "--listen", "--store", "--cards", "--data-dir", "--head-wait", "--max-body-memory", "--asleep-memory", `--proxies must be addresses or networks such as 10.0.0.7 or 10.0.0.0/24; got "balancer"`} {
		if err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("nothing is said of %s: %v", flag, err)
		}
	}
}

func TestListenersBeyondLoopbackAreMeant(t *testing.T) {
	t.Parallel()
	for listen, ok := range map[string]bool{
		"127.0.0.1:8080": true, "localhost:0": true, "[::1]:8080": true, "127.1.2.3:1": true,
		"0.0.0.0:8080": false, ":8080": false, "[::]:8080": false, "192.0.2.1:8080": false, "example.com:8080": false, "localhost.example.com:80": false,
		"127.0.0.1": false, "127.0.0.1:": false, "127.0.0.1:http-alt-nobody": false, "127.0.0.1:70000": false, "127.0.0.1:-1": false, "": false,
	} {
		o := DefaultUpOptions()
		o.Listen = listen
		if err := o.Validate(); (err == nil) != ok {
			t.Errorf("--listen %q: %v", listen, err)
		}
		if o.onLoopback() != ok && ok {
			t.Errorf("--listen %q is not taken for loopback", listen)
		}
	}
	o := DefaultUpOptions()
	o.Listen, o.Insecure = "0.0.0.0:8080", true
	if err := o.Validate(); err != nil || o.onLoopback() {
		t.Errorf("--insecure: %v, loopback %v", err, o.onLoopback())
	}
}

func TestStores(t *testing.T) {
	t.Parallel()
	for store, ok := range map[string]bool{"sqlite": true, "json:ledger.json": true, "json:": false, "": false, "mysql": false, "SQLITE": false} {
		o := DefaultUpOptions()
		o.Store = store
		if err := o.Validate(); (err == nil) != ok {
			t.Errorf("--store %q: %v", store, err)
		}
	}
}

func TestDatabaseIsNamedByASecret(t *testing.T) {
	t.Parallel()
	up, controller := DefaultUpOptions(), DefaultControllerOptions()
	up.Store = "mysql"
	for name, validate := range map[string]func() error{"up": up.Validate, "controller": controller.Validate} {
		if err := validate(); err == nil || !strings.Contains(err.Error(), DSNVariable) || !strings.Contains(err.Error(), "--mysql-dsn-file") {
			t.Errorf("%s without a database: %v", name, err)
		}
	}
	up.MySQLDSN, controller.MySQLDSN, controller.Machine = "root@tcp(127.0.0.1:1)/ledger", "root@tcp(127.0.0.1:1)/ledger", "data"
	if err := errors.Join(up.Validate(), controller.Validate()); err != nil {
		t.Error(err)
	}
}

func TestControllerTellsEveryErrorAtOnce(t *testing.T) {
	t.Parallel()
	for _, parts := range [][]string{nil, {"api", "gateway"}} {
		err := ControllerOptions{Listen: "0.0.0.0:1", Parts: parts, StopGrace: -1}.Validate()
		for _, says := range []string{"--listen", DSNVariable, "--machine", "--parts", "--stop-grace", "--reconcile-every"} {
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("parts %v: nothing is said of %s: %v", parts, says, err)
			}
		}
	}
}

// The end is as hard as a power cut's: nothing runs after the armed point.
func TestCrashPointKills(t *testing.T) {
	t.Parallel()
	exe, err := DefaultExecutable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), exe, crashSubcommand).Output()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("ended with %v", err)
	}
	if string(out) != "alive until the point\n" {
		t.Errorf("it said %q", out)
	}
}
