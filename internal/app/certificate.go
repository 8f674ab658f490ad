package app

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// CertificateFiles name a PEM certificate with its chain, and its key. Both
// empty means no TLS.
type CertificateFiles struct{ Certificate, Key string }

func (f CertificateFiles) given() bool { return f.Certificate != "" }

func (f CertificateFiles) validate() error {
	if (f.Certificate == "") != (f.Key == "") {
		return errors.New("--tls-cert and --tls-key go together: name both files, or none")
	}
	return nil
}

// certificate is read again when its file changes: it is renewed while the
// gateway runs.
type certificate struct {
	files CertificateFiles

	mu      sync.Mutex
	current *tls.Certificate
	changed time.Time
	looked  time.Time
}

// lookEvery is how often a handshake looks whether the file has changed.
const lookEvery = 10 * time.Second

// config returns what a TLS listener needs, or says what is wrong with the
// files.
func (f CertificateFiles) config(now func() time.Time) (*tls.Config, error) {
	c := &certificate{files: f}
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
		return c.current, nil
	}
	var next tls.Certificate
	if err == nil {
		next, err = tls.LoadX509KeyPair(c.files.Certificate, c.files.Key)
	}
	switch {
	case err == nil:
		c.current, c.changed = &next, info.ModTime()
	case c.current == nil:
		return nil, fmt.Errorf("read the certificate of --tls-cert and --tls-key: %w", err)
	}
	return c.current, nil
}
