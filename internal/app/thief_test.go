package app

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"modeldock.io/test/executable"
)

// leavingSubcommand is an engine that tells its port in every answer, and stops
// to listen, but not to run, once it is asked to leave.
const leavingSubcommand = "leaving-engine"

func leavingMain(port string) int {
	server := &http.Server{Addr: "127.0.0.1:" + port}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `{"data":[]}`)
			return
		}
		asked, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, `{"id":"x","object":"chat.completion","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"port %s;"}}]}`, port)
		if strings.Contains(string(asked), "leave") {
			go func() { _ = server.Shutdown(context.Background()) }() // once this is answered
		}
	})
	_ = server.ListenAndServe()
	select {} // the process stays, and with it the replica for a while
}

// Somebody who listens where a tenant's engine listened a moment ago gets
// nothing that was meant for it.
func TestAStolenPortGetsNoPrompt(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give tenants users of their own")
	}
	r := up(t, nil)
	raw, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "modeldock-thief-") // a tenant's user can get there
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := executable.Write(dir+"/engine", raw); err != nil {
		t.Fatal(err)
	}
	status, _, body := r.ask("team-a", "POST", "/requests", fmt.Sprintf(
		`{"id":"one","cost":1,"priority":0,"model":{"name":"one","engine":"custom","gpuMemoryMiB":16,"healthPath":"/","command":[%q,%q,"${PORT}"]}}`, dir+"/engine", leavingSubcommand))
	if status != 202 {
		t.Fatalf("it was not taken: %d %s", status, body)
	}
	chat := func(words string) (int, string) {
		status, _, body := r.ask("team-a", "POST", "/v1/chat/completions", fmt.Sprintf(`{"model":"one","messages":[{"role":"user","content":%q}]}`, words))
		return status, body
	}
	status, body = chat("leave")
	_, said, _ := strings.Cut(body, "port ")
	port, _, found := strings.Cut(said, ";")
	if status != 200 || !found {
		t.Fatalf("the engine answers %d %s", status, body)
	}
	var thief net.Listener
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if thief, err = net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	got := make(chan string, 100)
	go func() {
		defer close(got)
		for {
			c, err := thief.Accept()
			if err != nil {
				return
			}
			first := make([]byte, 4096)
			n, _ := c.Read(first)
			got <- string(first[:n])
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: 13\r\n\r\n{\"forged\": 1}")
			_ = c.Close()
		}
	}()
	for range 3 { // until it is noticed, nobody else can answer
		if status, body := chat("a secret"); strings.Contains(body, "forged") {
			t.Errorf("%d: the thief's answer came through: %s", status, body)
		}
	}
	_ = thief.Close()
	for words := range got {
		if words != "" {
			t.Errorf("the thief heard %q", words)
		}
	}
}
