package metricsapi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FrontProxy knows the API server by the certificate that it calls aggregated
// APIs with, and takes its word for who the caller is. What that certificate
// is signed by stands in a ConfigMap of every cluster.
type FrontProxy struct {
	Reader client.Reader
	Clock  func() time.Time

	mu    sync.Mutex
	rules proxyRules
	read  time.Time
}

// The ConfigMap, and for how long it is believed: the certificates are renewed.
const (
	proxyNamespace = "kube-system"
	proxyConfig    = "extension-apiserver-authentication"
	proxyAge       = time.Minute
)

type proxyRules struct {
	authority *x509.CertPool
	names     []string // empty: any that the authority signed
	users     []string // headers
	groups    []string
	extras    []string // prefixes of headers
}

// ServerTLS asks callers for their certificate, and leaves it to Authenticate
// to judge it: probes have none.
func ServerTLS(c *tls.Config) *tls.Config {
	c.ClientAuth = tls.RequestClientCert
	return c
}

// Authenticate says who asked the API server.
func (f *FrontProxy) Authenticate(r *http.Request) (User, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return User{}, errors.New("the caller has no client certificate")
	}
	rules, err := f.current(r.Context())
	if err != nil {
		return User{}, err
	}
	leaf := r.TLS.PeerCertificates[0]
	between := x509.NewCertPool()
	for _, c := range r.TLS.PeerCertificates[1:] {
		between.AddCert(c)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: rules.authority, Intermediates: between, CurrentTime: f.Clock(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		return User{}, fmt.Errorf("the caller's certificate is not the API server's: %w", err)
	}
	if name := leaf.Subject.CommonName; len(rules.names) > 0 && !slices.Contains(rules.names, name) {
		return User{}, fmt.Errorf("the caller's certificate is of %q; the API server's is of %s", name, strings.Join(rules.names, " or "))
	}
	u := User{Name: first(r.Header, rules.users), Extra: map[string][]string{}}
	if u.Name == "" {
		return User{}, errors.New("the API server does not say who its caller is")
	}
	for _, h := range rules.groups {
		u.Groups = append(u.Groups, r.Header.Values(h)...)
	}
	for key, values := range r.Header {
		for _, prefix := range rules.extras {
			if rest, is := strings.CutPrefix(strings.ToLower(key), strings.ToLower(prefix)); is {
				if plain, err := url.PathUnescape(rest); err == nil {
					rest = plain
				}
				u.Extra[rest] = append(u.Extra[rest], values...)
			}
		}
	}
	return u, nil
}

func first(h http.Header, names []string) string {
	for _, name := range names {
		if v := h.Get(name); v != "" {
			return v
		}
	}
	return ""
}

// current are the rules of the last minute; while the ConfigMap cannot be
// read, those of before.
func (f *FrontProxy) current(ctx context.Context) (proxyRules, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.Clock()
	if now.Sub(f.read) < proxyAge && f.rules.authority != nil {
		return f.rules, nil
	}
	rules, err := f.load(ctx)
	if err != nil {
		if f.rules.authority != nil {
			return f.rules, nil
		}
		return rules, err
	}
	f.rules, f.read = rules, now
	return rules, nil
}

func (f *FrontProxy) load(ctx context.Context) (proxyRules, error) {
	var c corev1.ConfigMap
	if err := f.Reader.Get(ctx, client.ObjectKey{Namespace: proxyNamespace, Name: proxyConfig}, &c); err != nil {
		return proxyRules{}, fmt.Errorf("read how the API server is known (ConfigMap %s/%s): %w", proxyNamespace, proxyConfig, err)
	}
	rules := proxyRules{authority: x509.NewCertPool()}
	if !rules.authority.AppendCertsFromPEM([]byte(c.Data["requestheader-client-ca-file"])) {
		return proxyRules{}, fmt.Errorf("ConfigMap %s/%s has no requestheader-client-ca-file: the API server is not set up for aggregated APIs", proxyNamespace, proxyConfig)
	}
	for key, into := range map[string]*[]string{
		"requestheader-allowed-names": &rules.names, "requestheader-username-headers": &rules.users,
		"requestheader-group-headers": &rules.groups, "requestheader-extra-headers-prefix": &rules.extras,
	} {
		if text := c.Data[key]; text != "" {
			if err := json.Unmarshal([]byte(text), into); err != nil {
				return proxyRules{}, fmt.Errorf("read %s of ConfigMap %s/%s: %w", key, proxyNamespace, proxyConfig, err)
			}
		}
	}
	return rules, nil
}

// Authorizer asks the API server whether a caller may read a metric.
func Authorizer(c client.Client) func(context.Context, User, Access) error {
	return func(ctx context.Context, u User, a Access) error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: u.Name, Groups: u.Groups, Extra: map[string]authorizationv1.ExtraValue{},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: a.Namespace, Verb: "get", Group: Group, Version: Version, Resource: a.Resource, Subresource: a.Metric, Name: a.Name,
			},
		}}
		for key, values := range u.Extra {
			review.Spec.Extra[key] = values
		}
		if err := c.Create(ctx, review); err != nil {
			return fmt.Errorf("ask whether %s may read metrics: %w", u.Name, err)
		}
		if !review.Status.Allowed {
			return fmt.Errorf("%s may not get %s/%s of %s in %s: %s", u.Name, a.Resource, a.Metric, Group, a.Namespace, review.Status.Reason)
		}
		return nil
	}
}
