package metricsapi

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/elastic"
)

// objects is an API server that has these.
type objects struct {
	models []v1alpha1.ModelService
	pods   []metav1.PartialObjectMetadata
	config corev1.ConfigMap
	away   error
}

func (o *objects) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if o.away != nil {
		return o.away
	}
	if c, is := into.(*corev1.ConfigMap); is {
		*c = o.config
		return nil
	}
	for _, m := range o.models {
		if m.Namespace == key.Namespace && m.Name == key.Name {
			*into.(*v1alpha1.ModelService) = m //nolint:forcetypeassert // nothing else is read
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "modelservices"}, key.Name)
}

func (o *objects) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	if o.away != nil {
		return o.away
	}
	var by client.ListOptions
	by.ApplyOptions(opts)
	chosen := func(m metav1.ObjectMeta) bool {
		name, exact := "", false
		if by.FieldSelector != nil {
			name, exact = by.FieldSelector.RequiresExactMatch("metadata.name")
		}
		return m.Namespace == by.Namespace && by.LabelSelector.Matches(labels.Set(m.Labels)) && (!exact || m.Name == name)
	}
	switch list := into.(type) {
	case *v1alpha1.ModelServiceList:
		for _, m := range o.models {
			if chosen(m.ObjectMeta) {
				list.Items = append(list.Items, m)
			}
		}
	case *metav1.PartialObjectMetadataList:
		for _, p := range o.pods {
			if chosen(p.ObjectMeta) {
				list.Items = append(list.Items, p)
			}
		}
	}
	return nil
}

func (o *objects) model(name string) {
	o.models = append(o.models, v1alpha1.ModelService{
		ObjectMeta: metav1.ObjectMeta{Namespace: "models", Name: name, Labels: map[string]string{"team": name}},
		Spec:       v1alpha1.ModelServiceSpec{Tenant: "team-a", RequestID: name},
	})
}

func (o *objects) pod(name, of string) {
	o.pods = append(o.pods, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "models", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{v1alpha1.LabelModelService: of},
	}})
}

// bench is the API, reached as the API server would.
type bench struct {
	*testing.T
	objects objects
	signals map[string]elastic.Signals // by request id
	denied  error
	asked   []Access
	server  *httptest.Server
	as      *http.Client
}

// authority signs client certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newAuthority(t *testing.T, name string) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert, key, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))}
}

// client calls with a certificate of this name.
func (a authority) client(t *testing.T, name string) *http.Client {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	transport := &http.Transport{TLSClientConfig: c}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func setup(t *testing.T) *bench {
	t.Helper()
	front := newAuthority(t, "front")
	b := &bench{T: t, signals: map[string]elastic.Signals{}, as: front.client(t, "front-proxy")}
	b.objects.config.Data = map[string]string{
		"requestheader-client-ca-file": front.pem, "requestheader-allowed-names": `["front-proxy"]`,
		"requestheader-username-headers": `["X-Remote-User"]`, "requestheader-group-headers": `["X-Remote-Group"]`, "requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
	}
	proxy := &FrontProxy{Reader: &b.objects, Clock: time.Now}
	api := New(Config{
		Reader: &b.objects, Authenticate: proxy.Authenticate, Logger: slog.New(slog.DiscardHandler),
		Signals: func(_ context.Context, tenant, id string) (elastic.Signals, error) {
			in, known := b.signals[id]
			if tenant != "team-a" || !known {
				return in, ErrUnknown
			}
			return in, nil
		},
		Authorize: func(_ context.Context, _ User, a Access) error {
			b.asked = append(b.asked, a)
			return b.denied
		},
	})
	b.server = httptest.NewUnstartedServer(api.Handler())
	b.server.TLS = ServerTLS(&tls.Config{MinVersion: tls.VersionTLS12})
	b.server.StartTLS()
	t.Cleanup(b.server.Close)
	return b
}

// get asks as the API server that vouches for a controller.
func (b *bench) get(path string, into any) int {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, b.server.URL+path, nil)
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("X-Remote-User", "system:serviceaccount:kube-system:horizontal-pod-autoscaler")
	resp, err := b.as.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		b.Fatal(err)
	}
	return resp.StatusCode
}
