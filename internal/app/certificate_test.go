package app

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writeCertificate makes a certificate with a serial number of its own.
func writeCertificate(t *testing.T, f CertificateFiles, serial int64, at time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"gateway"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{f.Certificate: {Type: "CERTIFICATE", Bytes: der}, f.Key: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, at, at); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCertificateIsRenewed: a new file is used without a restart, a broken one
// is not.
func TestCertificateIsRenewed(t *testing.T) {
	t.Parallel()
	dir, now := t.TempDir(), time.Now()
	files := CertificateFiles{filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")}
	told := &said{}
	log := slog.New(slog.NewTextHandler(told, nil))
	if _, err := files.config(time.Now, log); err == nil {
		t.Error("files that are not there are taken")
	}
	writeCertificate(t, files, 1, now)
	cfg, err := files.config(func() time.Time { return now }, log)
	if err != nil {
		t.Fatal(err)
	}
	serial := func() int64 {
		now = now.Add(lookEvery)
		got, err := cfg.GetCertificate(&tls.ClientHelloInfo{})
		if err != nil {
			t.Fatal(err)
		}
		return got.Leaf.SerialNumber.Int64()
	}
	if got := serial(); got != 1 {
		t.Errorf("serial %d", got)
	}
	writeCertificate(t, files, 2, now.Add(time.Hour))
	if got := serial(); got != 2 {
		t.Errorf("serial %d after the renewal", got)
	}
	good, err := os.ReadFile(files.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(files.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	for times := 1; times <= 2; times++ { // broken, put back, broken again
		if err := os.WriteFile(files.Certificate, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if got := serial(); got != 2 {
				t.Errorf("serial %d after a broken file", got)
			}
		}
		if n := strings.Count(told.String(), "the changed certificate is of no use"); n != times {
			t.Errorf("a broken renewal was told %d times, want %d: %s", n, times, told)
		}
		if err := errors.Join(os.WriteFile(files.Certificate, good, 0o600), os.Chtimes(files.Certificate, info.ModTime(), info.ModTime())); err != nil {
			t.Fatal(err)
		}
		serial()
	}
	if err := (CertificateFiles{Certificate: "only.crt"}).validate(); err == nil {
		t.Error("a certificate without a key is taken")
	}
}
