package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestPickKey(t *testing.T) {
	t.Parallel()
	keys := map[string]string{"admin": "A", "team-a": "a", "team-b": "b"}
	noAdmin := map[string]string{"team-a": "a"}
	for name, c := range map[string]struct {
		keys         map[string]string
		tenant, home string
		asAdmin      bool
		want         string // empty: a usage error
	}{
		"an admin's verb":               {keys, "", "team-a", true, "A"},
		"an admin's verb for a tenant":  {keys, "team-b", "team-a", true, "A"},
		"the context's tenant":          {keys, "", "team-a", false, "a"},
		"the tenant asked for":          {keys, "team-b", "team-a", false, "b"},
		"no tenant at all":              {keys, "", "", false, "A"},
		"a tenant without an entry":     {keys, "team-c", "team-a", false, "A"},
		"no admin, its own":             {noAdmin, "", "team-a", false, "a"},
		"no admin for an admin's verb":  {noAdmin, "", "team-a", true, ""},
		"no entry and no admin":         {noAdmin, "team-c", "team-a", false, ""},
		"an empty file":                 {map[string]string{}, "", "", false, ""},
		"a lost context has no tenant":  {noAdmin, "", "", false, ""},
		"the name admin is not special": {keys, "admin", "", false, "A"},
	} {
		got, err := pickKey(c.keys, c.tenant, c.home, c.asAdmin)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := pickKey(noAdmin, "", "team-a", true); err == nil || !strings.Contains(err.Error(), `"admin"`) {
		t.Errorf("it does not say which entry is missing: %v", err)
	}
}

// echo is a server that tells who asked.
func echo(t *testing.T) (*httptest.Server, func() string) {
	t.Helper()
	var mu sync.Mutex
	var seen string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") + " " + r.URL.RequestURI()
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"items":[],"next":""}`))
	}))
	t.Cleanup(s.Close)
	return s, func() string {
		mu.Lock()
		defer mu.Unlock()
		was := seen
		seen = ""
		return was
	}
}

func TestFlagsBeforeEnvironmentBeforeContext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, seenOne := echo(t)
	two, seenTwo := echo(t)
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	keys := file("keys.json", `{"admin":"mdk_admin","team-a":"mdk_a","team-b":"mdk_b"}`)
	single := file("key", "mdk_single\n")
	file("modeldock/config.yaml", "current: local\ncontexts:\n  local: {url: "+one.URL+"/, keyFile: "+keys+", tenant: team-a}\n  other: {url: "+two.URL+", keyFile: "+single+"}\n")
	saved := "XDG_CONFIG_HOME=" + dir
	for _, c := range []struct {
		env  []string
		args string
		seen func() string
		want string
	}{
		{nil, "list", seenOne, "mdk_a /requests"},
		{nil, "list --tenant team-b", seenOne, "mdk_b /requests?tenant=team-b"},
		{nil, "list --tenant team-c", seenOne, "mdk_admin /requests?tenant=team-c"},
		{nil, "key list", seenOne, "mdk_admin /keys"},
		{nil, "list --context other", seenTwo, "mdk_single /requests"},
		{nil, "list --key-file " + single, seenOne, "mdk_single /requests"},
		{[]string{"MODELDOCK_KEY=mdk_env"}, "list", seenOne, "mdk_env /requests"},
		{[]string{"MODELDOCK_KEY=mdk_env"}, "list --key-file " + single, seenOne, "mdk_single /requests"},
		{[]string{"MODELDOCK_KEY=mdk_env", "MODELDOCK_URL=" + two.URL}, "list", seenTwo, "mdk_env /requests"},
		{[]string{"MODELDOCK_KEY=mdk_env", "MODELDOCK_URL=" + two.URL}, "list --url " + one.URL, seenOne, "mdk_env /requests"},
		{nil, "list --url " + one.URL, seenOne, "mdk_a /requests"},
	} {
		apart(t, append(c.env, saved), strings.Fields(c.args)...).exits(exitOK)
		if got := c.seen(); got != c.want {
			t.Errorf("%v modeldock %s asked as %q, want %q", c.env, c.args, got, c.want)
		}
	}
	// The saved key is for the saved server only.
	apart(t, []string{saved}, "list", "--url", two.URL).exits(exitUsage, "MODELDOCK_KEY")
	if got := seenTwo(); got != "" {
		t.Errorf("another server was shown %q", got)
	}
	apart(t, []string{saved}, "list", "--context", "nobody").exits(exitUsage, "nobody")
	apart(t, []string{saved}, "list", "--key-file", dir+"/none").exits(exitFailed, "key file")
	apart(t, []string{"XDG_CONFIG_HOME=" + dir + "/none"}, "list").exits(exitUsage, "modeldock up", "MODELDOCK_URL")
	file("modeldock/config.yaml", "current: [")
	apart(t, []string{saved}, "list").exits(exitFailed, "config.yaml")
}

func TestUpSavesAContextForTheNextCommand(t *testing.T) {
	t.Parallel()
	admin(t) // the shared machine has saved one
	data, err := os.ReadFile(filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "modeldock", "config.yaml"))
	if err != nil || !strings.Contains(string(data), shared.url) || !strings.Contains(string(data), "tenant: team-a") {
		t.Errorf("%v: %s", err, data)
	}
	info, err := os.Stat(filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "modeldock", "config.yaml"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	id := fmt.Sprintf("saved%d", shared.n.Add(1))
	apart(t, nil, "submit", "--id", id, quick, "--wait").exits(exitOK, "team-a")
	// A forced release is the admin's, of the request that plain verbs mean.
	apart(t, nil, "release", id, "--force", "--why", "test").exits(exitOK, "released")
}

// answers serves the same answer to everything.
func answers(t *testing.T, status int, kind, body string) []string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	return withKey(t, s.URL)
}

func withKey(t *testing.T, url string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("mdk_x"), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--url", url, "--key-file", file}
}

// verbs is every verb that asks the server once.
func verbs() []string {
	return []string{
		"submit --id x", "get x", "list", "release x", "explain x", "trace x", "models", "nodes", "fit 4096", "quota get", "quota set x 1",
		"pool get", "pool set x 1", "key create x", "key list", "grant add a b c", "grant list", "ledger verify", "ledger journal x", "step admit",
	}
}

// Whatever a server says, no verb calls it success or breaks down.
func TestServersThatAreNoModelDock(t *testing.T) {
	t.Parallel()
	html := answers(t, 200, "text/html", "<html>hello</html>")
	empty := answers(t, 200, "application/json", "")
	strange := answers(t, 206, "application/json", `{"hello":"world"}`)
	broken := answers(t, 502, "text/html", "<html>bad gateway</html>")
	for _, verb := range append(verbs(), "key revoke x", "grant remove a b c") {
		modeldock(t, append(strings.Fields(verb), html...)...).exits(exitFailed, "is there one at this URL")
		modeldock(t, append(strings.Fields(verb), broken...)...).exits(exitFailed, "502")
	}
	for _, verb := range verbs() {
		if d := modeldock(t, append(strings.Fields(verb), strange...)...); d.code != exitFailed {
			t.Errorf("modeldock %s took a strange answer: exit %d: %s%s", verb, d.code, d.out, d.err)
		}
		if d := modeldock(t, append(strings.Fields(verb), empty...)...); d.code != exitFailed {
			t.Errorf("modeldock %s took an empty answer: exit %d: %s%s", verb, d.code, d.out, d.err)
		}
	}
}

func TestErrorsOfEveryShape(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		body   string
		code   int
		says   string
	}{
		{400, `{"error":{"code":"invalid_request","message":"cost is wrong","field":"model.cost"}}`, exitUsage, "cost is wrong (field model.cost) (invalid_request)"},
		{401, `{"error":{"code":"unauthorised","message":"no"}}`, exitUnauthorised, "no (unauthorised)"},
		{403, `{"error":{"code":null,"message":"no"}}`, exitUnauthorised, "modeldock: no\n"},
		{404, `{"detail":"not here"}`, exitNotFound, "404"},
		{409, `{"error":{"code":"conflict","message":"there"}}`, exitConflict, "there"},
		{413, `{"error":{"code":"body_too_large","message":"large"}}`, exitUsage, "large"},
		{500, `{}`, exitFailed, "500"},
		{501, `{"error":{"code":"not_implemented","message":"later"}}`, exitFailed, "later"},
		{409, `{"error":{"code":"budget_blocked","message":"team-a holds 2 of 2"}}`, exitBroken, "2 of 2 (budget_blocked)"},
		{409, `{"error":{"code":"stale_generation","message":"read it again","field":"generation"}}`, exitConflict, "(stale_generation)"},
		{503, `{"error":{"code":"unavailable","message":"soon"}}`, exitFailed, "soon"},
		{500, `{"error":{"code":"internal","message":"a\u001b[31m\nb"}}`, exitFailed, "a [31m b"},
	} {
		flags := answers(t, c.status, "application/json", c.body)
		d := modeldock(t, append([]string{"list"}, flags...)...).exits(c.code, c.says)
		if strings.Contains(d.err, "\x1b") || strings.Count(d.err, "\n") != 1 {
			t.Errorf("%q", d.err)
		}
	}
	modeldock(t, append([]string{"list"}, withKey(t, "http://127.0.0.1:1")...)...).exits(exitFailed, "refused")
	for _, bad := range []string{"http://[", "localhost:8080", "127.0.0.1", "ftp://host", "http://"} {
		modeldock(t, append([]string{"list"}, withKey(t, bad)...)...).exits(exitUsage, "URL")
	}
}

func TestChatErrors(t *testing.T) {
	t.Parallel()
	delta := `data: {"choices":[{"delta":{"content":"par"}}]}` + "\n\n"
	for name, c := range map[string]struct{ body, says string }{
		"cut":                {delta, "ended without [DONE]"},
		"nothing":            {"", "ended without [DONE]"},
		"error in the midst": {delta + `data: {"error":{"message":"CUDA out of memory"}}` + "\n\n", "CUDA out of memory"},
		"no stream":          {`{"choices":[]}`, "ended without [DONE]"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("X-Request-Id", "req_1")
			_, _ = w.Write([]byte(c.body))
		}))
		d := modeldock(t, append([]string{"chat", "m", "hi"}, withKey(t, s.URL)...)...).exits(exitFailed, c.says, "modeldock trace req_1")
		if strings.Contains(c.body, "par") && d.out != "par\n" {
			t.Errorf("%s: the part that came is %q", name, d.out)
		}
		s.Close()
	}
	refused := answers(t, 404, "application/json", `{"error":{"message":"The model 'm' does not exist","type":"invalid_request_error","param":"model","code":"model_not_found"}}`)
	modeldock(t, append([]string{"chat", "m", "hi"}, refused...)...).exits(exitNotFound, "does not exist", "model_not_found")
}

// A wait outlives a server that is away for a moment.
func TestWaitGoesOnAfterAnOutage(t *testing.T) {
	t.Parallel()
	record := func(state, more string) string {
		return `{"id":"x","tenant":"t","revision":1,"generation":1,"cost":1,"held":1,"priority":1,"state":"` + state + `","pool":"default","model":{},"submits":1,
			"createdAt":"2026-03-01T12:00:00.000000Z","expiresAt":"2026-03-01T12:00:00.000000Z","everReady":false` + more + `}`
	}
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch n.Add(1) {
		case 1:
			w.WriteHeader(http.StatusAccepted)
			_, _ = w.Write([]byte(record("waiting", `,"readyReplicas":0`)))
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"error":{"code":"unavailable","message":"the ledger cannot answer"}}`))
		case 3:
			panic(http.ErrAbortHandler)
		default:
			_, _ = w.Write([]byte(record("reserved", `,"readyReplicas":1`)))
		}
	}))
	t.Cleanup(s.Close)
	flags := withKey(t, s.URL)
	modeldock(t, append([]string{"submit", "--id", "x", "--wait"}, flags...)...).exits(exitOK, "asking again", "reserved")
	gone := answers(t, 404, "application/json", `{"error":{"code":"not_found","message":"no such request"}}`)
	modeldock(t, append([]string{"release", "x", "--wait"}, gone...)...).exits(exitNotFound)
}

// Messages of engines cannot leave their cell or steer the terminal.
func TestTablesKeepTheirShape(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	tab := table{head: []string{"A", "B"}}
	tab.add("one\ntwo\tthree", "\x1b[2Jx\r")
	tab.add("", "y")
	if err := tab.write(&out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	if len(lines) != 3 || strings.ContainsAny(out.String(), "\x1b\r\t") || !strings.HasPrefix(lines[2], "-  ") {
		t.Errorf("%q", out.String())
	}
}

func TestUpRefusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	modeldock(t, "up", "--listen", "0.0.0.0:0", "--store", "x", "--data-dir", t.TempDir()).exits(exitUsage, "--insecure", "--store")
	modeldock(t, "up", "now").exits(exitUsage)
	admin(t)
	modeldock(t, "up", "--listen", "127.0.0.1:0", "--data-dir", shared.dir).exits(exitFailed, "in use", "pid")
}
