//go:build cluster && keda

package autoscaling

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"modeldock.io/test/cluster/dock"
)

// prometheus is a real one, which can go away and come back. It listens on the
// cluster's bridge, where Pods reach it.
type prometheus struct {
	b       *bundle
	name    string
	url     string
	command []string
	log     string

	process *exec.Cmd // nil while it is away
}

// prometheus starts one that scrapes all gateways and controllers.
func (b *bundle) prometheus(name string) *prometheus {
	b.t.Helper()
	dir := b.t.TempDir()
	host, _ := b.cluster.APIServerAddress()
	address := net.JoinHostPort(host, freePort(b.t, host))
	config := filepath.Join(dir, "prometheus.yaml")
	text := "global: {scrape_interval: 15s}\nscrape_configs:\n"
	for job, processes := range map[string][]*dock.Process{"gateway": b.dock.Gateways, "controller": b.dock.Controllers} {
		var targets []string
		for _, p := range processes {
			targets = append(targets, strconv.Quote(strings.TrimPrefix(p.Ops, "http://")))
		}
		text += fmt.Sprintf("- {job_name: modeldock-%s, static_configs: [{targets: [%s]}]}\n", job, strings.Join(targets, ", "))
	}
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	p := &prometheus{b: b, name: name, url: "http://" + address, log: filepath.Join(dir, "log"), command: []string{
		b.programs("prometheus")["prometheus"], "--config.file=" + config, "--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + address, "--log.level=warn",
	}}
	b.t.Cleanup(func() {
		if p.process != nil {
			p.stop()
		}
		if text, err := os.ReadFile(p.log); b.t.Failed() && err == nil {
			b.t.Logf("--- Prometheus %s\n%s", name, text)
		}
	})
	p.begin()
	return p
}

func (p *prometheus) begin() {
	p.b.t.Helper()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.b.t.Fatal(err)
	}
	defer func() { _ = log.Close() }() // the process has its own
	p.process = exec.Command(p.command[0], p.command[1:]...)
	p.process.Stdout, p.process.Stderr = log, log
	p.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // it does not outlive whoever started it
	if err := p.process.Start(); err != nil {
		p.b.t.Fatal(err)
	}
	var last string
	for deadline := time.Now().Add(p.b.patience); ; time.Sleep(200 * time.Millisecond) {
		r, err := http.NewRequestWithContext(p.b.t.Context(), http.MethodGet, p.url+"/-/ready", http.NoBody)
		if err != nil {
			p.b.t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
			last = resp.Status
		} else {
			last = err.Error()
		}
		if time.Now().After(deadline) {
			p.b.t.Fatalf("Prometheus %s is not ready: %s", p.name, last)
		}
	}
}

// stop ends it the polite way.
func (p *prometheus) stop() {
	p.b.t.Helper()
	process := p.process
	p.process = nil
	if err := process.Process.Signal(syscall.SIGTERM); err != nil {
		p.b.t.Errorf("end Prometheus %s: %v", p.name, err)
	}
	if err := process.Wait(); err != nil {
		p.b.t.Errorf("Prometheus %s ended: %v", p.name, err)
	}
}
