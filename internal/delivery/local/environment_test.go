package local

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"modeldock.io/test/executable"

	"modeldock.io/internal/delivery"
	"modeldock.io/internal/delivery/local/supervise"
	"modeldock.io/internal/modelspec"
)

// steering is an environment by which its author would take over a process of
// any program, ours included.
func steering() map[string]string {
	return map[string]string{
		"LD_PRELOAD": "/nowhere/tenant.so", "LD_AUDIT": "/nowhere/tenant.so", "GLIBC_TUNABLES": "glibc.malloc.check=0",
		"GODEBUG": "http2debug=1", "GOTRACEBACK": "all", "GOCOVERDIR": "/nowhere", "MODELDOCK_LISTEN": "0.0.0.0:1",
		"MODELDOCK_RUN_ID": "somebody.else", "TENANTS_OWN": "1",
	}
}

// everyEngine is one request of each engine that a machine can run.
func everyEngine(t *testing.T) []delivery.Desired {
	t.Helper()
	sources := map[modelspec.Engine]string{modelspec.EngineLlamaCpp: "hf://o/m", modelspec.EngineVLLM: "hf://o/m", modelspec.EngineSGLang: "hf://o/m"}
	var out []delivery.Desired
	for _, kind := range modelspec.Engines() {
		out = append(out, desired("team-a", "m-"+strings.ReplaceAll(string(kind), ".", ""), func(m *modelspec.Model) {
			m.Engine, m.Source, m.Env, m.GPUMemory = kind, sources[kind], steering(), 1024
			switch kind {
			case modelspec.EngineSimulated:
			case modelspec.EngineCustom:
				m.Args, m.Command = nil, []string{"sleep", "1000"}
			default:
				m.Args = nil
			}
		}))
	}
	return out
}

// onPath makes programs of the engines' names that only wait.
func onPath(t *testing.T) {
	t.Helper()
	dir := publicDir(t)
	for _, name := range []string{"llama-server", "vllm", "python3", "ollama"} {
		if err := executable.Write(dir+"/"+name, []byte("#!/bin/sh\nexec sleep 1000\n")); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// As root no engine, the simulated one included, has root's rights, and what
// is left of root's processes sees nothing that a tenant wrote.
func TestNoTenantSteersRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give tenants users of their own")
	}
	onPath(t)
	b := setup(t)
	engines := everyEngine(t)
	for _, d := range engines {
		b.apply(d)
	}
	for _, d := range engines {
		b.until(d, "started", func(s delivery.Status) bool { return len(s.Replicas) == 1 && s.Replicas[0].Address != "" })
	}
	b.untilReady(engines[slices.IndexFunc(engines, func(d delivery.Desired) bool { return d.Model.Engine == modelspec.EngineSimulated })])
	roots, tenants := 0, 0
	for _, pid := range family(t, b.target.runs.identity) {
		names, err := variables(pid)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it ended while we looked
		}
		if err != nil {
			t.Fatal(err)
		}
		switch uid := owner(t, pid); {
		case uid >= firstUID && uid <= lastUID:
			tenants++
		case !slices.Equal(names, []string{supervise.RunIDVariable, "PATH"}):
			t.Errorf("process %d of uid %d sees %v", pid, uid, names)
		default:
			roots++ // a supervisor
		}
	}
	if roots != len(engines) || tenants != len(engines) {
		t.Errorf("%d processes of root and %d of tenants for %d engines", roots, tenants, len(engines))
	}
}

// variables lists the names of a process's environment in their order.
func variables(pid int) ([]string, error) {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	var out []string
	for entry := range bytes.SplitSeq(bytes.TrimRight(raw, "\x00"), []byte{0}) {
		name, _, _ := strings.Cut(string(entry), "=")
		out = append(out, name)
	}
	return out, err
}

// owner is the real uid of a process.
func owner(t *testing.T, pid int) int {
	t.Helper()
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "\nUid:\t")
	uid, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return uid
}

// A process that has ModelDock's own rights is never started with such an
// environment, whatever the engine.
func TestOwnUserIsNotSteered(t *testing.T) {
	t.Parallel()
	for name, value := range steering() {
		err := checkEnv(user{Tenant: "team-a"}, map[string]string{name: value})
		if refused := err != nil && strings.Contains(err.Error(), "model.env sets "+name); refused == (name == "TENANTS_OWN") {
			t.Errorf("%s: %v", name, err)
		}
		if err := checkEnv(user{Tenant: "team-a", UID: firstUID}, map[string]string{name: value}); err != nil {
			t.Errorf("%s is the tenant's own affair: %v", name, err)
		}
	}
	for _, name := range []string{"GOOGLE_APPLICATION_CREDENTIALS", "HF_TOKEN", "OLLAMA_MODELS"} {
		if err := checkEnv(user{}, map[string]string{name: "x"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
