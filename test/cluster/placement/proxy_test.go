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
	shut  bool                     // nothing comes through
	held  map[string]chan struct{} // Bindings of these Pods come through when it is closed
	came  map[string]bool          // of these
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
		storm, shut := p.storm, p.shut
		p.mu.Unlock()
		if shut || !p.wait(r) {
			panic(http.ErrAbortHandler)
		}
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

// cut lets nothing through, and ends what is open, until it is opened.
func (p *proxy) cut() {
	p.mu.Lock()
	p.shut = true
	p.mu.Unlock()
	p.front.CloseClientConnections()
}

func (p *proxy) open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut = false
}

// hold keeps the Binding of a Pod back until let is called. came tells whether
// it has come.
func (p *proxy) hold(pod string) (came func() bool, let func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	gate := make(chan struct{})
	p.held, p.came = map[string]chan struct{}{pod: gate}, map[string]bool{}
	came = func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.came[pod]
	}
	return came, sync.OnceFunc(func() { close(gate) })
}

// wait holds a request back that is to be; false means that nobody waits for it
// any more.
func (p *proxy) wait(r *http.Request) bool {
	path, isBinding := strings.CutSuffix(r.URL.Path, "/binding")
	if r.Method != http.MethodPost || !isBinding {
		return true
	}
	name := path[strings.LastIndexByte(path, '/')+1:]
	p.mu.Lock()
	gate := p.held[name]
	if gate != nil {
		p.came[name] = true
	}
	p.mu.Unlock()
	if gate == nil {
		return true
	}
	select {
	case <-gate:
		return true
	case <-r.Context().Done():
		return false
	}
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
