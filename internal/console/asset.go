package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
)

// assetsFolder holds files whose names carry a hash of their content.
const assetsFolder = "assets/"

// minGzipSize is where compression begins to be worth its header.
const minGzipSize = 512

// asset is one file as it is sent: embedded files have no modification time,
// so the content's hash is the validator.
type asset struct {
	body        []byte
	gzipped     []byte // nil where compression gains nothing
	contentType string
	etag        string // without quotes
	immutable   bool
}

// loadAssets reads a build. A folder that does not exist is a build without files.
func loadAssets(files fs.FS) (map[string]*asset, error) {
	assets := map[string]*asset{}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			if name == "." && errors.Is(err, fs.ErrNotExist) {
				return fs.SkipAll
			}
			return err
		}
		if entry.IsDir() {
			return nil
		}
		body, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		assets[name], err = newAsset(name, body)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the console's files: %w", err)
	}
	return assets, nil
}

func newAsset(name string, body []byte) (*asset, error) {
	sum := sha256.Sum256(body)
	a := &asset{
		body:        body,
		contentType: contentType(name),
		etag:        hex.EncodeToString(sum[:12]),
		immutable:   strings.HasPrefix(name, assetsFolder),
	}
	if len(body) < minGzipSize || isCompressed(name) {
		return a, nil
	}
	var packed bytes.Buffer
	zw, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, fmt.Errorf("compress %s: %w", name, err)
	}
	if _, err := zw.Write(body); err != nil {
		return nil, fmt.Errorf("compress %s: %w", name, err)
	}
	if err := zw.Close(); err != nil {
		return nil, fmt.Errorf("compress %s: %w", name, err)
	}
	if packed.Len() < len(body) {
		a.gzipped = packed.Bytes()
	}
	return a, nil
}

// contentType is fixed for the kinds of file that a build has: the host's MIME
// table may be wrong, and with nosniff a wrong type is fatal.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".png":
		return "image/png"
	case ".woff2":
		return "font/woff2"
	case ".json", ".map":
		return "application/json"
	case ".txt":
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

func isCompressed(name string) bool {
	ext := path.Ext(name)
	return ext == ".woff2" || ext == ".png"
}

// serve sends the file, its compressed copy, or 304 to who has it already.
func (a *asset) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", a.contentType)
	h.Set("Cache-Control", "no-cache")
	if a.immutable {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	body, tag := a.body, `"`+a.etag+`"`
	if a.gzipped != nil {
		h.Add("Vary", "Accept-Encoding")
		if acceptsGzip(r.Header.Get("Accept-Encoding")) {
			// Another representation, so another strong validator.
			body, tag = a.gzipped, `"`+a.etag+`-gz"`
		}
	}
	h.Set("ETag", tag)
	if matches(r.Header.Get("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if len(body) != len(a.body) {
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method == http.MethodHead {
		return
	}
	// A caller that has gone away is no error of ours.
	_, _ = w.Write(body)
}

// acceptsGzip reads Accept-Encoding; "gzip;q=0" is a refusal, and the wildcard
// is not taken for a wish.
func acceptsGzip(header string) bool {
	for part := range strings.SplitSeq(header, ",") {
		coding, params, _ := strings.Cut(part, ";")
		if !strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			continue
		}
		q, found := strings.CutPrefix(strings.ReplaceAll(strings.ToLower(params), " ", ""), "q=")
		if !found {
			return true
		}
		weight, err := strconv.ParseFloat(q, 64)
		return err == nil && weight > 0
	}
	return false
}

// matches compares by the weak rule of If-None-Match (RFC 9110, 13.1.2).
func matches(header, tag string) bool {
	if strings.TrimSpace(header) == "*" {
		return true
	}
	for candidate := range strings.SplitSeq(header, ",") {
		if strings.TrimPrefix(strings.TrimSpace(candidate), "W/") == tag {
			return true
		}
	}
	return false
}
