package app

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"modeldock.io/internal/traffic/gateway"
)

// CertificateFiles name a PEM certificate with its chain, and its key. Both
// empty means no TLS.
type CertificateFiles struct{ Certificate, Key string }

func (f CertificateFiles) given() bool { return f.Certificate != "" }

func (f CertificateFiles) validate() error {
	if (f.Certificate == "") != (f.Key == "") {
		return errors.New("--tls-cert and --tls-key go together: name both files, or none")
	}
	_, err := f.config(func() time.Time { return time.Time{} }, slog.New(slog.DiscardHandler))
	return err
}

// certificate is read again when its file changes: it is renewed while the
// process runs.
type certificate struct {
	files CertificateFiles
	log   *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	changed time.Time
	looked  time.Time
	refused string // why the latest file is of no use; told once
}

// lookEvery is how often a handshake looks whether the file has changed.
const lookEvery = 10 * time.Second

// config returns what a TLS listener needs, or says what is wrong with the
// files; nil if none are named.
func (f CertificateFiles) config(now func() time.Time, log *slog.Logger) (*tls.Config, error) {
	if !f.given() {
		return nil, nil
	}
	c := &certificate{files: f, log: log}
	if _, err := c.get(now()); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.get(now()) },
	}, nil
}

// get returns the certificate. One that was changed into something unusable
// leaves the one before in place.
func (c *certificate) get(now time.Time) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil && now.Sub(c.looked) < lookEvery {
		return c.current, nil
	}
	c.looked = now
	info, err := os.Stat(c.files.Certificate)
	if err == nil && c.current != nil && info.ModTime().Equal(c.changed) {
		c.refused = "" // the one before was put back
		return c.current, nil
	}
	var next tls.Certificate
	if err == nil {
		next, err = tls.LoadX509KeyPair(c.files.Certificate, c.files.Key)
	}
	switch {
	case err == nil:
		if c.current != nil {
			c.log.Info("the certificate was renewed", "file", c.files.Certificate, "until", next.Leaf.NotAfter)
		}
		c.current, c.changed, c.refused = &next, info.ModTime(), ""
	case c.current == nil:
		return nil, fmt.Errorf("read the certificate of --tls-cert and --tls-key: %w", err)
	case c.refused != err.Error():
		c.refused = err.Error()
		c.log.Warn("the changed certificate is of no use; the one before is still served", "file", c.files.Certificate, "until", c.current.Leaf.NotAfter, "error", err)
	}
	return c.current, nil
}

// serveHTTP serves HTTPS if there is a certificate, else HTTP.
func serveHTTP(server *gateway.Server, listener net.Listener, secured *tls.Config) error {
	if secured == nil {
		return server.Serve(listener)
	}
	server.TLSConfig = secured
	return server.ServeTLS(listener)
}

// urlOf is where a listener is reached from this machine.
func urlOf(listener net.Listener, secured *tls.Config) string {
	if secured == nil {
		return "http://" + reachable(listener.Addr())
	}
	return "https://" + reachable(listener.Addr())
}
