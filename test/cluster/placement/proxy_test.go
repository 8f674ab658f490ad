//go:build cluster

package placement

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// proxy stands between the scheduler and the API server and can swallow what
// the API server answered to the Binding of a Pod.
type proxy struct {
	kubeconfig string

	mu    sync.Mutex
	lose  string // name of the Pod
	blind bool   // what was swallowed also cannot be read afterwards
	lost  int
}

func newProxy(t *testing.T, kubeconfig string) *proxy {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{kubeconfig: filepath.Join(t.TempDir(), "scheduler.kubeconfig")}
	reverse := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ModifyResponse: func(res *http.Response) error {
			if p.swallows(res.Request) {
				panic(http.ErrAbortHandler)
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	front := httptest.NewServer(reverse)
	t.Cleanup(func() { front.CloseClientConnections(); front.Close() })
	out := clientcmdapi.NewConfig()
	out.Clusters["test"] = &clientcmdapi.Cluster{Server: front.URL}
	out.Contexts["test"] = &clientcmdapi.Context{Cluster: "test"}
	out.CurrentContext = "test"
	if err := clientcmd.WriteToFile(*out, p.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return p
}

// loseBinding swallows every answer to the Binding of a Pod; blind, the Pod
// cannot be read either, so that the scheduler learns of it by its watch alone.
func (p *proxy) loseBinding(pod string, blind bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose, p.blind, p.lost = pod, blind, 0
}

func (p *proxy) swallowed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

func (p *proxy) swallows(r *http.Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	path := "/pods/" + p.lose
	switch {
	case p.lose == "":
		return false
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, path+"/binding"):
		p.lost++
		return true
	}
	return p.blind && r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, path)
}
