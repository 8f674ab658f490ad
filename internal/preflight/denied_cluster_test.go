//go:build cluster

package preflight

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// tries are requests as whoever has taken a process over would make them.
func tries(models string) map[string][]string {
	const rbac = "/apis/rbac.authorization.k8s.io/v1"
	return map[string][]string{
		"GET": {
			"/api/v1/secrets", "/api/v1/namespaces/modeldock-system/secrets", "/api/v1/namespaces/modeldock-system/secrets/database", "/api/v1/namespaces/" + models + "/secrets",
			"/api/v1/namespaces/kube-system/configmaps", "/api/v1/pods", "/api/v1/namespaces/kube-system/pods", "/apis/apps/v1/deployments", rbac + "/clusterroles",
			"/apis/modeldock.io/v1alpha1/modelservices", "/api/v1/nodes/n/proxy/pods", "/api/v1/namespaces/" + models + "/pods/p/proxy/", "/api/v1/namespaces",
		},
		"POST": {
			"/api/v1/namespaces/" + models + "/pods", "/api/v1/namespaces/modeldock-system/pods", "/api/v1/namespaces/kube-system/pods", "/api/v1/namespaces/" + models + "/pods/p/exec?command=sh",
			"/apis/apps/v1/namespaces/modeldock-system/deployments", "/apis/apps/v1/namespaces/kube-system/deployments", "/apis/batch/v1/namespaces/" + models + "/jobs",
			"/api/v1/namespaces/modeldock-system/serviceaccounts/modeldock-controller/token", "/api/v1/namespaces/" + models + "/secrets", "/api/v1/nodes", "/api/v1/namespaces",
			rbac + "/clusterrolebindings", rbac + "/namespaces/" + models + "/rolebindings", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/modeldock.io/v1alpha1/namespaces/modeldock-system/modelservices",
		},
		"DELETE": {"/api/v1/nodes/n", "/api/v1/namespaces/" + models, "/api/v1/namespaces/kube-system/pods/p", "/apis/apps/v1/namespaces/modeldock-system/deployments/modeldock-gateway", "/api/v1/namespaces/" + models + "/pods"},
	}
}

// Both processes, with the rights of an installation, are refused everything
// that they do not need; what they need is tried by the stories on real Pods.
func TestDeniedVerbs(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.install("0.2.0")
	s.found("rights", "controller", OK, "")
	s.found("rights", "gateway", OK, "")
	own := map[string]map[string][]string{
		"controller": {"GET": {"/api/v1/namespaces/modeldock/pods", "/api/v1/nodes", "/apis/modeldock.io/v1alpha1/namespaces/modeldock/modelservices"}},
		"gateway":    {"GET": {"/api/v1/namespaces/modeldock/services", "/apis/discovery.k8s.io/v1/namespaces/modeldock/endpointslices"}},
	}
	for process := range own {
		as := rest.CopyConfig(s.server.REST)
		as.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:modeldock-system:modeldock-" + process, Groups: groupsOf("modeldock-system")}
		client, err := rest.HTTPClientFor(as)
		s.must(err)
		var call func(method, path string) int
		call = func(method, path string) int {
			r, err := http.NewRequestWithContext(t.Context(), method, strings.TrimSuffix(s.server.REST.Host, "/")+path, strings.NewReader("{}"))
			s.must(err)
			r.Header.Set("Content-Type", "application/json")
			resp, err := client.Do(r)
			s.must(err)
			s.must(resp.Body.Close())
			if resp.StatusCode == http.StatusTooManyRequests && t.Context().Err() == nil { // a server that has just begun
				time.Sleep(100 * time.Millisecond)
				return call(method, path)
			}
			return resp.StatusCode
		}
		for method, paths := range own[process] {
			for _, path := range paths {
				if status := call(method, path); status != http.StatusOK {
					t.Errorf("%s needs %s %s and is answered %d", process, method, path, status)
				}
			}
		}
		denied := tries("modeldock")
		if process == "gateway" { // it looks, and changes nothing
			denied["GET"] = append(denied["GET"], "/api/v1/nodes", "/api/v1/namespaces/modeldock/pods", "/api/v1/namespaces/modeldock/pods/p/log", "/apis/modeldock.io/v1alpha1/namespaces/modeldock/modelservices", "/api/v1/namespaces/modeldock-system/configmaps")
			denied["POST"] = append(denied["POST"], "/apis/modeldock.io/v1alpha1/namespaces/modeldock/modelservices", "/apis/apps/v1/namespaces/modeldock/deployments", "/api/v1/namespaces/modeldock/services")
			denied["DELETE"] = append(denied["DELETE"], "/apis/modeldock.io/v1alpha1/namespaces/modeldock/modelservices/m", "/api/v1/namespaces/modeldock/pods/p")
		}
		var tried, allowed []string
		for method, paths := range denied {
			for _, path := range paths {
				tried = append(tried, method+" "+path)
				if status := call(method, path); status != http.StatusForbidden {
					allowed = append(allowed, fmt.Sprintf("%s %s: %d", method, path, status))
				}
			}
		}
		slices.Sort(allowed)
		if len(allowed) > 0 || len(tried) < 30 {
			t.Errorf("%s was not refused %d of %d:\n%s", process, len(allowed), len(tried), strings.Join(allowed, "\n"))
		}
	}
}
