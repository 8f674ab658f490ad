package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// validFor is longer than any test cluster lives.
const validFor = 365 * 24 * time.Hour

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	File string // its certificate
	now  time.Time
}

// identity is what a certificate is issued for: a user with groups, or a
// server at hosts (addresses and names), or both.
type identity struct {
	name   string
	groups []string
	hosts  []string
}

// keyPair names the files of a certificate and its key.
type keyPair struct{ Cert, Key string }

func newAuthority(dir, name string, now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of %s: %w", name, err)
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(validFor),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read back %s: %w", name, err)
	}
	a := &authority{cert: cert, key: key, File: filepath.Join(dir, name+".crt"), now: now}
	return a, writePEM(a.File, "CERTIFICATE", der)
}

// issue writes a certificate and its key to NAME.crt and NAME.key in dir.
func (a *authority) issue(dir, file string, id identity) (keyPair, error) {
	pair := keyPair{Cert: filepath.Join(dir, file+".crt"), Key: filepath.Join(dir, file+".key")}
	key, err := writeKey(pair.Key)
	if err != nil {
		return pair, err
	}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: id.name, Organization: id.groups}, //nolint:misspell // the library spells it so
		NotBefore: a.now.Add(-time.Hour), NotAfter: a.now.Add(validFor),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	for _, host := range id.hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return pair, fmt.Errorf("sign the certificate of %s: %w", id.name, err)
	}
	return pair, writePEM(pair.Cert, "CERTIFICATE", der)
}

// signingKey makes the key pair that service-account tokens are signed with.
func signingKey(dir string) (keyPair, error) {
	pair := keyPair{Cert: filepath.Join(dir, "service-account.pub"), Key: filepath.Join(dir, "service-account.key")}
	key, err := writeKey(pair.Key)
	if err != nil {
		return pair, err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return pair, fmt.Errorf("encode the public key for tokens: %w", err)
	}
	return pair, writePEM(pair.Cert, "PUBLIC KEY", der)
}

func writeKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return key, writePEM(path, "EC PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		return fmt.Errorf("write a %s: %w", kind, err)
	}
	return nil
}

func serial() *big.Int {
	bytes := make([]byte, 16)
	_, _ = rand.Read(bytes) // it never fails
	return new(big.Int).SetBytes(bytes)
}
