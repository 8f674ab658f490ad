package app

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// raw sends bytes as they are, and returns every answer on the connection.
func (r *running) raw(sent string) (answers []*http.Response, bodies []string) {
	r.Helper()
	conn, err := new(net.Dialer).DialContext(r.Context(), "tcp", strings.TrimPrefix(r.URL, "http://"))
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	go func() { _, _ = io.WriteString(conn, sent) }() // the server may stop reading
	for reader := bufio.NewReader(conn); ; {
		resp, err := http.ReadResponse(reader, nil)
		if err != nil {
			return answers, bodies
		}
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		answers, bodies = append(answers, resp), append(bodies, string(text))
		if resp.Close {
			return answers, bodies
		}
	}
}

// Paths that a proxy, a router and a file system might read differently lead
// to nothing but what they say: never to keys, to another tenant's request, to
// a file, or to another page by a redirect.
func TestPathsLeadNowhereElse(t *testing.T) {
	t.Parallel()
	r := up(t, func(o *UpOptions) { o.Manual = true })
	r.ask("team-b", "POST", "/requests", `{"id":"zq7theirs","cost":1,"priority":1}`)
	r.ask("admin", "PUT", "/tenants/zq7tenant/quota", `{"cap":1}`)
	for _, path := range []string{
		"/requests/../keys", "/requests/..%2fkeys", "/requests/%2e%2e/keys", "/requests/one/..;/..;/keys", `/requests\..\keys`, "/requests/..%5ckeys",
		"//keys", "/./keys", "/keys/.", "/keys%2f", "/%6beys/%2e%2e/tenants/zq7tenant", "/keys%00", "/keys;x=1", "/KEYS",
		"/tenants/team-a%2f..%2fzq7tenant", "/tenants/team-a/../zq7tenant", "/requests/zq7theirs%00", "/requests/zq7theirs?tenant=team-a&tenant=team-b",
		"/v1/../keys", "/v1/..%2fkeys", "/v1/models/..%2f..%2fkeys", "/v1/models/team-b%2fzq7theirs", "/console/../keys", "/console/..%2f..%2fkeys.json",
		"/console/%2e%2e/%2e%2e/keys.json", "/console//etc/passwd", "/console/..%c0%af..%c0%afkeys.json", "/requests/zq7theirs/logs?replica=../../keys.json",
		"http://other/keys", "http://127.0.0.1/requests/../keys", "*", "?/keys",
	} {
		answers, bodies := r.raw(fmt.Sprintf("GET %s HTTP/1.1\r\nHost: m\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n", path, r.keys["team-a"]))
		if len(answers) != 1 {
			t.Errorf("%s: %d answers", path, len(answers))
			continue
		}
		status, body := answers[0].StatusCode, bodies[0]
		document := status == http.StatusOK && strings.HasPrefix(path, "/console/") && strings.Contains(body, "<!doctype html>")
		if status < 400 && !document || status >= 500 {
			t.Errorf("%s answered %d to %q: %.300s", path, status, answers[0].Header.Get("Location"), body)
		}
		for what, secret := range map[string]string{"a key": "mdk_", "another tenant": `"zq7tenant"`, "the admin's key": r.keys["admin"], "a file": "root:"} {
			if strings.Contains(body, secret) && !strings.Contains(body, "no such path") {
				t.Errorf("%s shows %s: %.300s", path, what, body)
			}
		}
		if strings.Contains(body, `"state"`) {
			t.Errorf("%s shows a request: %.300s", path, body)
		}
	}
}

// What two servers might cut into requests at different places is refused, and
// what follows it on the connection is never taken for a request.
func TestNothingIsSmuggled(t *testing.T) {
	t.Parallel()
	r := up(t, func(o *UpOptions) { o.Manual = true })
	hidden := "POST /requests HTTP/1.1\r\nHost: m\r\nAuthorization: Bearer " + r.keys["team-a"] + "\r\nContent-Length: 44\r\n\r\n" + `{"id":"zq7hidden","cost":1,"priority":1    }`
	// A proxy that goes by the length sees one request here.
	whole := fmt.Sprintf("Transfer-Encoding: chunked\r\nContent-Length: %d\r\n\r\n0\r\n\r\n", len(hidden)+5)
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(hidden), hidden)
	for name, head := range map[string]string{
		"a length beyond the chunks":    whole,
		"a length and chunks":           "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"chunks and a length":           "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n" + chunked,
		"two lengths":                   "Content-Length: 0\r\nContent-Length: 300\r\n\r\n",
		"a list of lengths":             "Content-Length: 0, 300\r\n\r\n",
		"a length with a sign":          "Content-Length: +0\r\n\r\n",
		"a length with a space":         "Content-Length : 0\r\n\r\n",
		"a coding in other words":       "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
		"two codings":                   "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
		"a coding with a control":       "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
		"a folded coding":               "Transfer-Encoding:\r\n chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n",
		"a chunk's size beyond 64 bits": "Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n",
		"a lone carriage return":        "X: a\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	} {
		for _, path := range []string{"/requests", "/v1/chat/completions", "/session", "/nowhere"} {
			answers, bodies := r.raw("POST " + path + " HTTP/1.1\r\nHost: m\r\nAuthorization: Bearer " + r.keys["team-a"] + "\r\n" + head + hidden)
			if len(answers) != 1 || answers[0].StatusCode < 400 {
				t.Errorf("%s with %s: %d answers: %.300q", path, name, len(answers), bodies)
			}
		}
	}
	if status, _, body := r.ask("team-a", "GET", "/requests/zq7hidden", ""); status != http.StatusNotFound {
		t.Errorf("a hidden request was taken: %d %s", status, body)
	}
}

// Whoever announces a body and sends none of it gets an answer and loses the
// connection, wherever it was: no place waits for what never comes.
func TestNoPlaceWaitsForABody(t *testing.T) {
	t.Parallel()
	r := up(t, func(o *UpOptions) { o.Manual = true })
	for _, ask := range []string{
		"GET /healthz", "GET /readyz", "GET /metrics", "GET /", "GET /console/", "POST /console/", "GET *", "GET /nowhere", "POST /nowhere",
		"POST /requests", "GET /requests", "POST /ledger/import", "POST /session", "POST /v1/chat/completions", "GET /v1/models", "GET /v1/nowhere",
	} {
		conn, err := new(net.Dialer).DialContext(r.Context(), "tcp", strings.TrimPrefix(r.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(patience))
		_, _ = io.WriteString(conn, ask+" HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{")
		all, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(all), "HTTP/1.1 ") {
			t.Errorf("%s: %v, answered %.200q", ask, err, all)
		}
	}
}

// A request for "*" names no path; its refusal has a body that says so.
func TestAsteriskIsAnswered(t *testing.T) {
	t.Parallel()
	r := up(t, func(o *UpOptions) { o.Manual = true })
	for _, method := range []string{"GET", "OPTIONS", "POST"} {
		answers, bodies := r.raw(method + " * HTTP/1.1\r\nHost: m\r\nConnection: close\r\n\r\n")
		if len(answers) != 1 || answers[0].StatusCode != http.StatusNotFound || !strings.Contains(bodies[0], `"code":"unknown_url"`) {
			t.Errorf("%s *: %v %q", method, answers, bodies)
		}
	}
	bare := httptest.NewRequest(http.MethodOptions, "*", nil)
	w := httptest.NewRecorder()
	if onePathMap(http.NewServeMux(), http.NotFoundHandler(), nil).ServeHTTP(w, bare); !strings.Contains(w.Body.String(), `"error"`) {
		t.Errorf("without a gateway: %d %q", w.Code, w.Body)
	}
}
