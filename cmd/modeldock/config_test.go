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
	env := []string{"MODELDOCK_CONFIG=" + file, "MODELDOCK_GATEWAY_OPS_LISTEN=127.0.0.1:2", "MODELDOCK_GATEWAY_STOP_GRACE=2s", "MODELDOCK_GATEWAY_TOKEN=zq7token-zq7token-zq7token-zq7token-zq7token", "MODELDOCK_MYSQL_DSN=zq7dsn", "MODELDOCK_GATEWAY_MACHINE=m"}
	d := apart(t, env, "config", "print", "gateway", "--stop-grace", "3s").exits(exitOK,
		"listen: 127.0.0.1:1\n", "ops-listen: 127.0.0.1:2\n", "stop-grace: 3s\n", "gateways: 3\n", "- http://a:1\n", "- http://b:2\n", "# MODELDOCK_GATEWAY_TOKEN: ***", "# MODELDOCK_MYSQL_DSN: ***")
	if strings.Contains(d.out, "zq7") || strings.Contains(d.out, "manual") {
		t.Errorf("it shows a secret, or another process's settings:\n%s", d.out)
	}
	again := apart(t, []string{"MODELDOCK_GATEWAY_TOKEN=zq7token-zq7token-zq7token-zq7token-zq7token", "MODELDOCK_MYSQL_DSN=zq7dsn"}, "config", "print", "gateway", "--config", configFile(t, d.out)).exits(exitOK)
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

// What looks like a setting and is none is refused by every process, with the
// name that was probably meant: whoever wrote it believes that it has an effect.
func TestUnknownSettingsAreRefusedWithTheNearest(t *testing.T) {
	t.Parallel()
	const names = "gateway: {state-dri: a}\ncontroller: {gatway-listen: b, machine: m}\nagents: {}\n"
	for _, args := range [][]string{{"gateway"}, {"up"}, {"config", "print", "up"}, {"config", "print", "agent", "--node", "n"}} {
		apart(t, nil, append(args, "--config", configFile(t, names))...).exits(exitUsage,
			`gateway has no setting "state-dri" (did you mean "state-dir"?)`, `controller has no setting "gatway-listen" (did you mean "gateway-listen"?)`, `no process "agents" (did you mean "agent"?)`)
	}
	wrong := []string{"MODELDOCK_UP_STOPGRACE=1s", "MODELDOCK_GATEWAY_TOKN=x", "MODELDOCK_CONTROLLER_CONFIG=/x", "MODELDOCK_AGENT_QQQQQQQQQQ=1"}
	refused := apart(t, wrong, "config", "print", "up").exits(exitUsage, `MODELDOCK_UP_STOPGRACE is set`, `did you mean "MODELDOCK_UP_STOP_GRACE"?`,
		`did you mean "MODELDOCK_GATEWAY_TOKEN"?`, `MODELDOCK_CONTROLLER_CONFIG is set`, `MODELDOCK_AGENT_QQQQQQQQQQ is set, and no process has such a setting: see`)
	if refused.out != "" {
		t.Errorf("settings are shown that no process would start with:\n%s", refused.out)
	}
	// What other parts of the program and Kubernetes' own links put there stays.
	fine := []string{
		"MODELDOCK_GATEWAY=http://g", "MODELDOCK_GATEWAY_TOKEN=t", "MODELDOCK_URL=u", "MODELDOCK_RUN_ID=r", "MODELDOCK_BIN=b", "MODELDOCK_CARDS_X=y",
		"MODELDOCK_GATEWAY_SERVICE_HOST=10.0.0.1", "MODELDOCK_GATEWAY_SERVICE_PORT=80", "MODELDOCK_GATEWAY_SERVICE_PORT_HTTP=80", "MODELDOCK_GATEWAY_PORT=tcp://10.0.0.1:80",
		"MODELDOCK_CONTROLLER_GATEWAYS_PORT_8082_TCP_ADDR=10.0.0.1", "MODELDOCK_AGENT_DELIVER=dra",
	}
	apart(t, fine, "config", "print", "up").exits(exitOK)
}

// No setting is named like a link to a Service, whose variables nobody judges.
func TestSettingsAreNoServiceLinks(t *testing.T) {
	t.Parallel()
	for process, settings := range settingNames() {
		if len(settings) < 10 {
			t.Errorf("%s has only %d settings", process, len(settings))
		}
		for _, setting := range settings {
			if name := variableOf(process, setting); serviceLink.MatchString(name) {
				t.Errorf("%s could be a link to a Service", name)
			}
		}
	}
}

// `config print` refuses what a start refuses, in the same words, all at once.
func TestPrintingJudgesLikeAStart(t *testing.T) {
	t.Parallel()
	for process, mistakes := range map[string]struct {
		text string
		says []string
	}{
		"up":         {"up: {listen: 0.0.0.0:1, ops-listen: here, store: nowhere, mysql-dsn-file: /none/dsn, redis: a, redis-url-file: b, head-wait: -1s, tls-key: k, lisen: x, cards: often}", []string{"--listen", "--ops-listen must be", "--store must", "/none/dsn", "--redis-url-file", "--head-wait", "--tls-cert", `"lisen"`, "--cards"}},
		"controller": {"controller: {gateway-listen: here, mysql-dsn-file: /none/dsn, gateway-token-file: /none/token, gateway-ca: /none/ca, parts: [all], gpu: some, drain-delay: 0s}", []string{"--gateway-listen must be", "/none/dsn", "/none/token", "/none/ca", "--parts", "--gpu", "--drain-delay"}},
		"gateway":    {"gateway: {ops-listen: here, gateway-token-file: /none/token, state-dir: \"\", stop-grace: -1s, tls-cert: /none/c, tls-key: /none/k, gateways: 0}", []string{"--ops-listen must be", "/none/token", "--state-dir", "--stop-grace", "/none/c", "--gateways", "--control"}},
		"agent":      {"agent: {ops-listen: here, cards: 1y1, cards-file: f, deliver: by-hand, chunk-mib: 0, redis-url-file: /none/redis}", []string{"--ops-listen must be", "--cards-file", "--deliver", "--chunk-mib", "/none/redis"}},
	} {
		file := configFile(t, mistakes.text+"\n")
		start := apart(t, nil, process, "--config", file).exits(exitUsage, mistakes.says...)
		if shown := apart(t, nil, "config", "print", process, "--config", file).exits(exitUsage, mistakes.says...); shown.err != start.err || shown.out != "" {
			t.Errorf("a start of %s says\n%s\nand config print says\n%s%s", process, start.err, shown.out, shown.err)
		}
	}
}
