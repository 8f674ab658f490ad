package cluster

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// An API server of our own behind the cluster's: requests arrive with the
// caller's name, from a client that proves to be the cluster.
func TestAggregatedAPI(t *testing.T) {
	t.Parallel()
	c, client := setup(t, Options{ControlPlaneOnly: true, FastAutoscaling: true})
	type caller struct{ User, Proxy string }
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := caller{User: r.Header.Get("X-Remote-User")}
		if len(r.TLS.PeerCertificates) > 0 {
			from.Proxy = r.TLS.PeerCertificates[0].Subject.CommonName
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(from)
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(t.Context(), fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: extension, namespace: kube-system}
spec: {type: ExternalName, externalName: localhost, ports: [{port: %[1]s}]}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.test.example}
spec: {group: test.example, version: v1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true,
  service: {name: extension, namespace: kube-system, port: %[1]s}}
`, port)); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		answer, err := client.RESTClient().Get().AbsPath("/apis/test.example/v1/things").DoRaw(ctx)
		if err != nil {
			return err
		}
		var got caller
		if err := json.Unmarshal(answer, &got); err != nil {
			return permanent(err)
		}
		if want := (caller{User: adminUser, Proxy: frontProxyName}); got != want {
			return permanent(fmt.Errorf("the request came as %+v, want %+v", got, want))
		}
		return nil
	})
}
