package scenario_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"modeldock.io/test/onemachine"
)

// outputs searches, and counts, what comes out.
type outputs struct {
	t       *testing.T
	secrets planted
	traced  string // the id of a call that was made
	looked  int
}

func (o *outputs) look(where string, text []byte) {
	o.t.Helper()
	o.looked++
	for _, what := range o.secrets.in(text) {
		o.t.Errorf("%s shows %s", where, what)
	}
}

// call looks at one whole answer, headers included.
func (o *outputs) call(at, method, path, key, body string, headers ...string) *http.Response {
	o.t.Helper()
	r, err := http.NewRequestWithContext(o.t.Context(), method, at+path, strings.NewReader(body))
	if err != nil {
		o.t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		o.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		o.t.Fatal(err)
	}
	said, _, _ := strings.Cut(path, "?")
	o.look(fmt.Sprintf("%s %s (%d)", method, said, resp.StatusCode), append(text, fmt.Sprint(resp.Header)...))
	return resp
}

// listen follows the events of each key until the returned function looks at
// what came.
func (o *outputs) listen(at string, keys ...string) (heard func()) {
	o.t.Helper()
	ctx, stop := context.WithCancel(o.t.Context())
	var all, first sync.WaitGroup // streams that last, and that have told of no request yet
	came := make([][]byte, len(keys))
	first.Add(len(keys))
	for i, key := range keys {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, at+"/events", nil)
		if err != nil {
			o.t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			o.t.Fatal(err)
		}
		all.Go(func() {
			defer func() { _ = resp.Body.Close() }()
			told := sync.OnceFunc(first.Done)
			defer told()
			lines := bufio.NewScanner(resp.Body) // it ends by being cut
			lines.Buffer(nil, 1<<20)
			for lines.Scan() {
				came[i] = append(append(came[i], lines.Bytes()...), '\n')
				if lines.Text() == "event: request" {
					told()
				}
			}
		})
	}
	return func() {
		o.t.Helper()
		late := time.AfterFunc(45*time.Second, stop)
		first.Wait()
		late.Stop()
		stop()
		all.Wait()
		for _, text := range came {
			if !bytes.Contains(text, []byte("event: request")) {
				o.t.Errorf("no event of a request came: %s", text)
			}
			o.look("GET /events", text)
		}
	}
}

// misuse puts secrets where they do not belong, on both APIs.
func (o *outputs) misuse(m *onemachine.Machine) {
	o.t.Helper()
	wrong := "mdk_0123456789abcdef_" + o.secrets["a key that was never right"]
	right := m.Key("team-a")
	chat := `{"model":"one","messages":[{"role":"user","content":"` + o.secrets["a prompt"] + `"}]`
	for _, path := range []string{"/requests", "/v1/models", "/v1/chat/completions", "/session", "/nowhere"} {
		for _, key := range []string{wrong, "Basic " + wrong, right + "x"} {
			o.call(m.API(), "GET", path, key, "")
			o.call(m.API(), "POST", path, key, chat+"}")
		}
		o.call(m.API(), "GET", path, right, "", "X-Strange", o.secrets["a strange header"], "Cookie", "modeldock_session="+o.secrets["a strange header"])
	}
	o.call(m.API(), "POST", "/session", "", `{"key":"`+wrong+`"}`)
	o.call(m.API(), "POST", "/session", "", `{"key":"`+right+`","colour":1}`)
	o.call(m.API(), "POST", "/v1/chat/completions", right, chat) // cut short
	o.call(m.API(), "POST", "/v1/chat/completions", right, chat+`,"stream":"maybe"}`)
	o.call(m.API(), "POST", "/v1/chat/completions", right, strings.Replace(chat, `"one"`, `"nothing"`, 1)+"}")
	o.call(m.API(), "POST", "/requests", right, `{"id":"two","cost":1,"priority":1,"model":{"env":{"1BAD":"`+o.secrets["a model's environment"]+`"}}}`)
	resp := o.call(m.API(), "POST", "/session", "", `{"key":"`+right+`"}`)
	if resp.StatusCode >= 300 {
		o.t.Errorf("signing in answered %d", resp.StatusCode)
	}
	for _, cookie := range resp.Cookies() {
		o.secrets["a session"] = cookie.Value
	}
	o.call(m.API(), "GET", "/requests", "", "", "Cookie", "modeldock_session="+o.secrets["a session"])
	o.call(m.API(), "POST", "/requests", "", "{}", "Cookie", "modeldock_session="+o.secrets["a session"]) // without its CSRF token
}

// reads are the paths of every GET of the description, filled in, so that a new
// one is searched without anybody thinking of it.
func (o *outputs) reads(id string) (paths []string) {
	o.t.Helper()
	text, err := os.ReadFile("../../api/openapi.yaml")
	var description struct{ Paths map[string]map[string]any }
	if err == nil {
		err = yaml.Unmarshal(text, &description)
	}
	if err != nil {
		o.t.Fatal(err)
	}
	names := strings.NewReplacer("{id}", id, "{requestId}", o.traced, "{tenant}", "team-a", "{pool}", "default", "{owner}", "team-a", "{name}", id)
	for path, methods := range description.Paths {
		if _, read := methods["get"]; !read || path == "/events" { // it is listened to
			continue
		}
		path = names.Replace(path)
		if strings.Contains(path, "{") {
			o.t.Errorf("GET %s has a parameter that is not filled in here", path)
		}
		paths = append(paths, path)
	}
	slices.Sort(paths)
	if len(paths) < 20 {
		o.t.Fatalf("only %d paths can be read", len(paths))
	}
	return paths
}

// everything reads all that there is to read. An export has a model's
// environment, for the model has to be started again where it is imported.
func (o *outputs) everything(m *onemachine.Machine) {
	o.t.Helper()
	whole := maps.Clone(o.secrets)
	for _, who := range []string{"admin", "team-a"} {
		for _, path := range append(append(o.reads("one"), o.reads("broken")...), "/v1/models", "/v1/models/one", "/v1/models/nothing", "/healthz", "/readyz", "/metrics", "/console/", "/debug/pprof/cmdline") {
			if path == "/ledger/export" {
				delete(o.secrets, "a model's environment")
			}
			o.call(m.API(), "GET", path+"?tenant=team-a", m.Key(who), "")
			o.secrets = maps.Clone(whole)
		}
	}
}

// processes looks at what ps shows everybody.
func (o *outputs) processes(pids ...int) {
	o.t.Helper()
	for _, pid := range pids {
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil { // else it has ended
			o.look(fmt.Sprintf("the command line of process %d", pid), line)
		}
	}
}

// files looks at what lies on the disk. A model's environment is kept there,
// for the model has to be started again.
func (o *outputs) files(folder string, but ...string) {
	o.t.Helper()
	delete(o.secrets, "a model's environment")
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || slices.Contains(but, e.Name()) {
			return nil //nolint:nilerr // what goes away meanwhile shows nothing
		}
		if text, err := os.ReadFile(path); err == nil {
			o.look("the file "+e.Name(), text)
		}
		return nil
	})
	if err != nil {
		o.t.Error(err)
	}
}
