package ollama

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"modeldock.io/internal/delivery/engine"
)

// server answers as Ollama documents, and remembers what it was asked.
type server struct {
	mu     sync.Mutex
	calls  []string
	blobs  map[string]string
	models map[string]bool
	answer func(call string) (int, string) // overrides, where it gives a status
}

func start(t *testing.T) (*server, string) {
	t.Helper()
	s := &server{blobs: map[string]string{}, models: map[string]bool{}}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return s, h.URL
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	call := r.Method + " " + r.URL.Path
	s.calls = append(s.calls, call)
	raw, _ := io.ReadAll(r.Body)
	if s.answer != nil {
		if status, body := s.answer(call); status != 0 {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
			return
		}
	}
	var in struct {
		Model string            `json:"model"`
		Files map[string]string `json:"files"`
	}
	_ = json.Unmarshal(raw, &in)
	digest := strings.TrimPrefix(r.URL.Path, "/api/blobs/")
	switch {
	case r.Method == http.MethodHead:
		if _, have := s.blobs[digest]; !have {
			w.WriteHeader(http.StatusNotFound)
		}
	case digest != r.URL.Path:
		s.blobs[digest] = string(raw)
		w.WriteHeader(http.StatusCreated)
	case r.URL.Path == "/api/create":
		for _, d := range in.Files {
			if _, have := s.blobs[d]; !have {
				w.WriteHeader(http.StatusBadRequest)
			}
		}
		s.models[in.Model] = true
	case !s.models[in.Model]:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"error":"model not found"}`)
	}
}

func TestLoadFromAFile(t *testing.T) {
	t.Parallel()
	s, url := start(t)
	file := filepath.Join(t.TempDir(), "tiny.gguf")
	if err := os.WriteFile(file, []byte("GGUF weights"), 0o600); err != nil {
		t.Fatal(err)
	}
	step := engine.OllamaLoad{Name: "tiny", File: file}
	for range 2 { // repeated, the blob is not sent again
		if err := Load(t.Context(), url, nil, step); err != nil {
			t.Fatal(err)
		}
	}
	sum := sha256.Sum256([]byte("GGUF weights"))
	blob := "sha256:" + hex.EncodeToString(sum[:])
	want := []string{
		"HEAD /api/blobs/" + blob, "POST /api/blobs/" + blob, "POST /api/create", "POST /api/generate",
		"HEAD /api/blobs/" + blob, "POST /api/create", "POST /api/generate",
	}
	if strings.Join(s.calls, "\n") != strings.Join(want, "\n") || s.blobs[blob] != "GGUF weights" {
		t.Fatalf("calls\n%s", strings.Join(s.calls, "\n"))
	}
}

func TestLoadByName(t *testing.T) {
	t.Parallel()
	s, url := start(t)
	s.models["llama3.2:1b"] = true
	if err := Load(t.Context(), url, nil, engine.OllamaLoad{Name: "llama3.2:1b"}); err != nil {
		t.Fatal(err)
	}
	if len(s.calls) != 2 {
		t.Fatalf("a model that is there was pulled: %q", s.calls)
	}
}

func TestFailuresSayWhat(t *testing.T) {
	t.Parallel()
	for failing, want := range map[string]string{
		"POST /api/pull":     "find model missing: Ollama does not have it and cannot pull it",
		"POST /api/generate": "load missing into memory",
	} {
		s, url := start(t)
		s.answer = func(call string) (int, string) {
			if call == failing {
				return http.StatusOK, `{"error":"out of memory"}` // as Ollama does while streaming
			}
			if failing == "POST /api/generate" && call == "POST /api/show" {
				return http.StatusOK, `{}`
			}
			return 0, ""
		}
		err := Load(t.Context(), url, nil, engine.OllamaLoad{Name: "missing"})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "out of memory") {
			t.Errorf("%s: %v", failing, err)
		}
	}
	if err := Load(t.Context(), "http://127.0.0.1:1", nil, engine.OllamaLoad{Name: "x", File: "/nowhere"}); err == nil {
		t.Error("a missing file was loaded")
	}
}

// What was put in the place of the weights since they were looked at is not
// read: neither what a link leads to nor a pipe, which would hang.
func TestOnlyTheFileItselfIsUploaded(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, put := range map[string]func(path string) error{
		"link": func(path string) error { return os.Symlink("/etc/passwd", path) },
		"pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
	} {
		s, base := start(t)
		path := filepath.Join(dir, name)
		if err := put(path); err != nil {
			t.Fatal(err)
		}
		if err := Load(t.Context(), base, nil, engine.OllamaLoad{Name: "m", File: path}); err == nil || len(s.calls) != 0 {
			t.Errorf("%s: uploaded (%v, %v)", name, err, s.calls)
		}
	}
}
