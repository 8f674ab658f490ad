package simulated

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	res, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(raw)
}

func sleeps(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url + "/is_sleeping")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, _ := io.ReadAll(res.Body)
	return strings.TrimSpace(string(raw))
}

const hello = `{"model":"tiny","messages":[{"role":"user","content":"hello"}]}`

// Asleep, it answers no inference and uses no memory; woken, it is as before.
func TestSleepAndWake(t *testing.T) {
	t.Parallel()
	_, url := setup(t, "--enable-sleep-mode", "--wake-delay=1ms", "--memory=1")
	if got := sleeps(t, url); got != `{"is_sleeping":false}` {
		t.Fatalf("before: %s", got)
	}
	for range 2 {
		for range 2 { // sleeping twice is sleeping
			if code, body := post(t, url+"/sleep?level=1", ""); code != http.StatusOK {
				t.Fatalf("sleep answers %d %s", code, body)
			}
		}
		if got := sleeps(t, url); got != `{"is_sleeping":true}` {
			t.Fatalf("asleep: %s", got)
		}
		if code, body := post(t, url+"/v1/chat/completions", hello); code != http.StatusServiceUnavailable || !strings.Contains(body, "sleeps") {
			t.Errorf("asleep, a chat answers %d %s", code, body)
		}
		if got := metric(t, url, "modeldock_simulated_memory_bytes"); got != "0" {
			t.Errorf("asleep, it uses %s bytes", got)
		}
		if code, body := post(t, url+"/wake_up", ""); code != http.StatusOK {
			t.Fatalf("wake_up answers %d %s", code, body)
		}
		if code, body := post(t, url+"/v1/chat/completions", hello); code != http.StatusOK {
			t.Errorf("awake again, a chat answers %d %s", code, body)
		}
	}
	if code, _ := post(t, url+"/wake_up", ""); code != http.StatusOK { // of one that is awake: nothing
		t.Errorf("waking one that is awake answers %d", code)
	}
	if got := metric(t, url, "modeldock_simulated_wakes_total"); got != "2" {
		t.Errorf("it was woken %s times", got)
	}
	if got := metric(t, url, "modeldock_simulated_memory_bytes"); got != "1.048576e+06" {
		t.Errorf("awake, it uses %s bytes", got)
	}
}

func TestSleepIsRefused(t *testing.T) {
	t.Parallel()
	_, plain := setup(t)
	for _, path := range []string{"/sleep", "/wake_up"} {
		if code, _ := post(t, plain+path, ""); code != http.StatusNotFound {
			t.Errorf("without the mode %s answers %d", path, code)
		}
	}
	e, url := setup(t, "--enable-sleep-mode", "--fail-wake")
	if code, body := post(t, url+"/sleep?level=2", ""); code != http.StatusBadRequest || !strings.Contains(body, "level 2") {
		t.Errorf("level 2 answers %d %s", code, body)
	}
	e.slots <- struct{}{}
	if code, body := post(t, url+"/sleep?level=1", ""); code != http.StatusConflict {
		t.Errorf("with a request under way: %d %s", code, body)
	}
	<-e.slots
	if code, _ := post(t, url+"/sleep?level=1", ""); code != http.StatusOK {
		t.Errorf("idle: %d", code)
	}
	if code, _ := post(t, url+"/wake_up", ""); code != http.StatusInternalServerError || !e.Asleep() {
		t.Errorf("--fail-wake: %d, asleep %v", code, e.Asleep())
	}
	_, stays := setup(t, "--enable-sleep-mode", "--fail-sleep")
	if code, _ := post(t, stays+"/sleep?level=1", ""); code != http.StatusInternalServerError || sleeps(t, stays) != `{"is_sleeping":false}` {
		t.Errorf("--fail-sleep: %d", code)
	}
}
