package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func configFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The file, over it the environment, over it the command line; what is printed
// is such a file again, without a secret in it.
func TestSettingsComeFromFileEnvironmentAndFlags(t *testing.T) {
	t.Parallel()
	file := configFile(t, "gateway:\n  listen: 127.0.0.1:1\n  ops-listen: 127.0.0.1:1\n  stop-grace: 1s\n  gateways: 3\n  control: [http://a:1, http://b:2]\nup:\n  manual: true\n")
	env := []string{"MODELDOCK_CONFIG=" + file, "MODELDOCK_GATEWAY_OPS_LISTEN=127.0.0.1:2", "MODELDOCK_GATEWAY_STOP_GRACE=2s", "MODELDOCK_GATEWAY_TOKEN=zq7token", "MODELDOCK_MYSQL_DSN=zq7dsn"}
	d := apart(t, env, "config", "print", "gateway", "--stop-grace", "3s").exits(exitOK,
		"listen: 127.0.0.1:1\n", "ops-listen: 127.0.0.1:2\n", "stop-grace: 3s\n", "gateways: 3\n", "- http://a:1\n", "- http://b:2\n", "# MODELDOCK_GATEWAY_TOKEN: ***", "# MODELDOCK_MYSQL_DSN: ***")
	if strings.Contains(d.out, "zq7") || strings.Contains(d.out, "manual") {
		t.Errorf("it shows a secret, or another process's settings:\n%s", d.out)
	}
	again := apart(t, []string{"MODELDOCK_GATEWAY_TOKEN=zq7token", "MODELDOCK_MYSQL_DSN=zq7dsn"}, "config", "print", "gateway", "--config", configFile(t, d.out)).exits(exitOK)
	if again.out != d.out {
		t.Errorf("what was printed means something else when it is read:\n%s", again.out)
	}
	apart(t, nil, "config", "print", "up", "--config", file).exits(exitOK, "manual: true\n")
	apart(t, []string{"MODELDOCK_AGENT_DELIVER=dra"}, "config", "print", "agent", "--node", "n").exits(exitOK, "deliver: dra\n", "node: \"n\"\n")
}

func TestMistakesInSettingsAreAllNamedAtOnce(t *testing.T) {
	t.Parallel()
	file := configFile(t, "gateways: {}\ngateway:\n  listn: x\n  config: y\n  stop-grace: often\n  control: {a: b}\n")
	apart(t, []string{"MODELDOCK_GATEWAY_CACHE_MIB=much"}, "gateway", "--config", file).exits(exitUsage,
		`no process "gateways"`, `no setting "listn"`, `no setting "config"`, "gateway.stop-grace", "gateway.control", "MODELDOCK_GATEWAY_CACHE_MIB")
	for text, says := range map[string]string{"gateway: [1]\n": "must hold flags", "gateway: {listen: a, listen: b}\n": "must hold flags", ":\n": "must hold flags"} {
		apart(t, nil, "gateway", "--config", configFile(t, text)).exits(exitUsage, says)
	}
	apart(t, nil, "gateway", "--config", filepath.Join(t.TempDir(), "none")).exits(exitUsage, "no such file")
	// What the file says is judged like flags: all at once, before anything starts.
	apart(t, nil, "gateway", "--config", configFile(t, "gateway: {listen: nowhere, state-dir: \"\"}\n")).exits(exitUsage, "nowhere", "--state-dir", "--control", "same token")
}
