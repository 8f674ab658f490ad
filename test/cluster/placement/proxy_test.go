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
	to         *url.URL
	transport  http.RoundTripper
	front      *httptest.Server

	mu    sync.Mutex
	storm *weather // where one blows
	lose  string   // name of the Pod
	blind bool     // what was swallowed also cannot be read afterwards
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
	p := &proxy{kubeconfig: filepath.Join(t.TempDir(), "scheduler.kubeconfig"), to: to, transport: transport}
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
	p.front = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		storm := p.storm
		p.mu.Unlock()
		if storm == nil || !storm.serve(w, r) {
			reverse.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		_ = p.front.Listener.Close() // the scheduler still runs; a watch that it began now would be waited for
		p.front.CloseClientConnections()
		p.front.Close()
	})
	out := clientcmdapi.NewConfig()
	out.Clusters["test"] = &clientcmdapi.Cluster{Server: p.front.URL}
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

// meets puts the proxy into a storm.
func (p *proxy) meets(storm *weather) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.storm = storm
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
