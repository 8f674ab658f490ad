// Package ollama does over Ollama's HTTP API what its server needs before it
// can serve a model (account 2): make the model known, and load it.
package ollama

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"modeldock.io/internal/delivery/engine"
)

const maxErrorBody = 4 << 10

// Dial connects to the server, and to nobody else; nil is net.Dialer's.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Load makes step's model known to the server at base, from its file or by
// its name, and loads it into memory. It may be repeated.
func Load(ctx context.Context, base string, dial Dial, step engine.OllamaLoad) error {
	c := client{base, dial}
	var err error
	if step.File != "" {
		err = c.create(ctx, step)
	} else {
		err = c.have(ctx, step.Name)
	}
	if err != nil {
		return err
	}
	// A request without a prompt only loads.
	if err := c.post(ctx, "/api/generate", map[string]any{"model": step.Name, "keep_alive": -1, "stream": false}); err != nil {
		return fmt.Errorf("load %s into memory: %w", step.Name, err)
	}
	return nil
}

type client struct {
	base string
	dial Dial
}

// create uploads the file, unless the server has it, and makes a model of it.
func (c client) create(ctx context.Context, step engine.OllamaLoad) error {
	file, err := openWeights(step.File)
	if err != nil {
		return fmt.Errorf("read the weights: %w", err)
	}
	defer func() { _ = file.Close() }()
	hash := sha256.New()
	size, err := io.Copy(hash, file)
	if err != nil {
		return fmt.Errorf("read the weights: %w", err)
	}
	digest := "sha256:" + hex.EncodeToString(hash.Sum(nil))
	if _, err := c.send(ctx, http.MethodHead, "/api/blobs/"+digest, nil, 0); err != nil {
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("read the weights: %w", err)
		}
		if _, err := c.send(ctx, http.MethodPost, "/api/blobs/"+digest, io.NopCloser(file), size); err != nil {
			return fmt.Errorf("give %s (%d bytes) to Ollama: %w", step.File, size, err)
		}
	}
	err = c.post(ctx, "/api/create", map[string]any{
		"model": step.Name, "stream": false, "files": map[string]string{filepath.Base(step.File): digest},
	})
	if err != nil {
		return fmt.Errorf("create model %s from %s: %w", step.Name, step.File, err)
	}
	return nil
}

// openWeights opens a regular file by a path without links: since it was
// looked at, whoever may write there could have put something else in its
// place, and this process may read more than the engine.
func openWeights(path string) (*os.File, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	file := os.NewFile(uintptr(fd), path)
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file (%s)", path, info.Mode())
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// have makes sure that the server knows the model, and pulls it if not.
func (c client) have(ctx context.Context, name string) error {
	if c.post(ctx, "/api/show", map[string]any{"model": name}) == nil {
		return nil
	}
	if err := c.post(ctx, "/api/pull", map[string]any{"model": name, "stream": false}); err != nil {
		return fmt.Errorf("find model %s: Ollama does not have it and cannot pull it (set OLLAMA_MODELS in model.env to the folder that has it, or give a file:// source): %w", name, err)
	}
	return nil
}

func (c client) post(ctx context.Context, path string, body any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("POST %s: %w", path, err)
	}
	answer, err := c.send(ctx, http.MethodPost, path, bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		return err
	}
	// Some failures come with status 200 and an error in the body.
	var e struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(answer, &e) == nil && e.Error != "" {
		return fmt.Errorf("POST %s: %s", path, e.Error)
	}
	return nil
}

func (c client) send(ctx context.Context, method, path string, body io.Reader, size int64) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	req.ContentLength = size
	h := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: c.dial}}
	res, err := h.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if res.StatusCode >= http.StatusMultipleChoices {
		return nil, fmt.Errorf("%s %s answers %d: %s", method, path, res.StatusCode, strings.TrimSpace(string(answer[:min(len(answer), maxErrorBody)])))
	}
	return answer, nil
}
