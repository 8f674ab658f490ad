package kube

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/traffic"
)

const namespace = "serving"

// service is the headless Service of team-a's model demo@v1.
func service(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, Labels: map[string]string{v1alpha1.LabelModelService: name},
		Annotations: map[string]string{
			v1alpha1.AnnotationTenant: "team-a", v1alpha1.AnnotationID: "r-1", v1alpha1.AnnotationLedger: "ledger-1",
			v1alpha1.AnnotationModel: "demo", v1alpha1.AnnotationVersion: "v1", v1alpha1.AnnotationObjectUID: "object-" + name,
		},
	}}
}

func slice(svc string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Labels: map[string]string{discoveryv1.LabelServiceName: svc, v1alpha1.LabelModelService: svc}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints,
		Ports: []discoveryv1.EndpointPort{{Name: new("metrics"), Port: new(int32(9000))}, {Name: new(v1alpha1.PortName), Port: new(int32(8000))}},
	}
}

// endpoint is a ready copy of a Pod.
func endpoint(uid, address string) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{address}, NodeName: new("node-1")}
	e.Conditions.Ready = new(true)
	if uid != "" {
		e.TargetRef = &corev1.ObjectReference{Kind: "Pod", UID: types.UID(uid)}
	}
	return e
}

func with(e discoveryv1.Endpoint, ready, serving, terminating *bool) discoveryv1.Endpoint {
	e.Conditions = discoveryv1.EndpointConditions{Ready: ready, Serving: serving, Terminating: terminating}
	return e
}

func six(s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	s.AddressType = discoveryv1.AddressTypeIPv6
	return s
}

func addresses(list []traffic.Endpoint) []string {
	var out []string
	for _, e := range list {
		out = append(out, e.UID+"="+e.Address)
	}
	return out
}

func TestMerge(t *testing.T) {
	t.Parallel()
	no, yes := new(false), new(true)
	x := endpoint("x", "10.0.0.1")
	for name, c := range map[string]struct {
		slices []*discoveryv1.EndpointSlice
		want   []string
	}{
		"nothing":                         {nil, nil},
		"an emptied slice":                {[]*discoveryv1.EndpointSlice{slice("md")}, nil},
		"an endpoint without an address":  {[]*discoveryv1.EndpointSlice{slice("md", discoveryv1.Endpoint{})}, nil},
		"over two slices":                 {[]*discoveryv1.EndpointSlice{slice("md", x), slice("md", endpoint("y", "10.0.0.2"))}, []string{"x=10.0.0.1:8000", "y=10.0.0.2:8000"}},
		"twice, once not ready (C068)":    {[]*discoveryv1.EndpointSlice{slice("md", with(x, no, nil, nil)), slice("md", x)}, []string{"x=10.0.0.1:8000"}},
		"ready twice":                     {[]*discoveryv1.EndpointSlice{slice("md", x), slice("md", x)}, []string{"x=10.0.0.1:8000"}},
		"ready nowhere":                   {[]*discoveryv1.EndpointSlice{slice("md", with(x, no, nil, nil)), slice("md", with(x, no, nil, nil))}, nil},
		"ready unsaid":                    {[]*discoveryv1.EndpointSlice{slice("md", with(x, nil, nil, nil))}, []string{"x=10.0.0.1:8000"}},
		"ready but not serving":           {[]*discoveryv1.EndpointSlice{slice("md", with(x, yes, no, nil))}, nil},
		"terminating and still serving":   {[]*discoveryv1.EndpointSlice{slice("md", with(x, no, yes, yes))}, nil},
		"terminating, published anyway":   {[]*discoveryv1.EndpointSlice{slice("md", with(x, yes, yes, yes))}, nil},
		"terminating, an old copy ready":  {[]*discoveryv1.EndpointSlice{slice("md", x), slice("md", with(x, no, yes, yes))}, nil},
		"two families, one Pod":           {[]*discoveryv1.EndpointSlice{six(slice("md", endpoint("x", "fd00::1"))), slice("md", x)}, []string{"x=10.0.0.1:8000"}},
		"IPv6 alone":                      {[]*discoveryv1.EndpointSlice{six(slice("md", endpoint("x", "fd00::1")))}, []string{"x=[fd00::1]:8000"}},
		"nobody names the Pod":            {[]*discoveryv1.EndpointSlice{slice("md", endpoint("", "10.0.0.1"))}, []string{"object-md/10.0.0.1:8000=10.0.0.1:8000"}},
		"one copy names the Pod":          {[]*discoveryv1.EndpointSlice{slice("md", endpoint("", "10.0.0.1")), slice("md", x)}, []string{"x=10.0.0.1:8000"}},
		"another Service's":               {[]*discoveryv1.EndpointSlice{slice("other", x)}, nil},
		"host names":                      {[]*discoveryv1.EndpointSlice{{ObjectMeta: slice("md").ObjectMeta, AddressType: discoveryv1.AddressTypeFQDN, Endpoints: []discoveryv1.Endpoint{endpoint("x", "evil.example")}, Ports: slice("md").Ports}}, nil},
		"a host name where an IP belongs": {[]*discoveryv1.EndpointSlice{slice("md", endpoint("x", "evil.example"))}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := addresses(Merge("ledger-1", []*corev1.Service{service("md")}, c.slices)); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// C067: 250 endpoints over three slices, of which one per slice is ready; a
// slice goes, and an address moves with both copies there.
func TestMergeManySlices(t *testing.T) {
	t.Parallel()
	var three []*discoveryv1.EndpointSlice
	for i, size := range []int{100, 100, 50} {
		s := slice("md")
		for j := range size {
			e := endpoint(fmt.Sprintf("p-%d-%d", i, j), fmt.Sprintf("10.%d.0.%d", i, j))
			if j != size/2 {
				e.Conditions.Ready = new(false)
			}
			s.Endpoints = append(s.Endpoints, e)
		}
		three = append(three, s)
	}
	svc := []*corev1.Service{service("md")}
	if got := addresses(Merge("", svc, three)); !slices.Equal(got, []string{"p-0-50=10.0.0.50:8000", "p-1-50=10.1.0.50:8000", "p-2-25=10.2.0.25:8000"}) {
		t.Fatalf("got %v", got)
	}
	if got := Merge("", svc, three[1:]); len(got) != 2 {
		t.Fatalf("without the first slice: %v", addresses(got))
	}
	moving := three[0].DeepCopy()
	three[1].Endpoints = append(three[1].Endpoints, moving.Endpoints[50])
	if got := Merge("", svc, three); len(got) != 3 {
		t.Fatalf("while it moves: %v", addresses(got))
	}
}

func TestMergeReadsWhatIsServed(t *testing.T) {
	t.Parallel()
	svc := service("md")
	all := []*discoveryv1.EndpointSlice{slice("md", endpoint("x", "10.0.0.1"))}
	want := traffic.Endpoint{
		UID: "x", Owner: "team-a", Model: "demo", Version: "v1", RequestID: "r-1", ObjectUID: "object-md",
		Address: "10.0.0.1:8000", Upstream: "demo", Node: "node-1",
	}
	if got := Merge("ledger-1", []*corev1.Service{svc}, all); !slices.Equal(got, []traffic.Endpoint{want}) {
		t.Errorf("got %+v", got)
	}
	svc.Annotations[v1alpha1.AnnotationUpstream] = "org/model"
	if got := Merge("", []*corev1.Service{svc}, all); got[0].Upstream != "org/model" {
		t.Errorf("upstream %q", got[0].Upstream)
	}
	for said, want := range map[string]int{"4": 4, "0": 0, "-1": 0, "many": 0} {
		svc.Annotations[v1alpha1.AnnotationParallel] = said
		if got := Merge("", []*corev1.Service{svc}, all); got[0].Parallel != want {
			t.Errorf("parallel %q is read as %d, want %d", said, got[0].Parallel, want)
		}
	}
	if got := Merge("ledger-2", []*corev1.Service{svc}, all); len(got) != 0 {
		t.Errorf("another ledger's: %+v", got)
	}
	for _, a := range []string{v1alpha1.AnnotationTenant, v1alpha1.AnnotationID, v1alpha1.AnnotationModel, v1alpha1.AnnotationVersion, v1alpha1.AnnotationObjectUID} {
		bare := svc.DeepCopy()
		delete(bare.Annotations, a)
		if got := Merge("", []*corev1.Service{bare}, all); len(got) != 0 {
			t.Errorf("without %s: %+v", a, got)
		}
	}
}

// Whatever copies there are, and in whatever order: a replica is routed once,
// or not at all, and by what its copies say together.
func TestMergeProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		type truth struct{ ready, going bool }
		pods := map[string]truth{}
		var all []*discoveryv1.EndpointSlice
		for range rapid.IntRange(0, 6).Draw(t, "slices") {
			s := slice("md")
			v6 := rapid.Bool().Draw(t, "v6")
			for range rapid.IntRange(0, 12).Draw(t, "endpoints") {
				n := rapid.IntRange(0, 9).Draw(t, "pod")
				uid, address := fmt.Sprintf("p-%d", n), fmt.Sprintf("10.0.0.%d", n+1)
				if v6 {
					address = fmt.Sprintf("fd00::%d", n+1)
				}
				flag := func(name string) *bool {
					return rapid.SampledFrom([]*bool{nil, new(false), new(true)}).Draw(t, name)
				}
				e := with(endpoint(uid, address), flag("ready"), flag("serving"), flag("terminating"))
				p := pods[uid]
				p.ready = p.ready || (e.Conditions.Ready == nil || *e.Conditions.Ready) && (e.Conditions.Serving == nil || *e.Conditions.Serving)
				p.going = p.going || e.Conditions.Terminating != nil && *e.Conditions.Terminating
				pods[uid] = p
				s.Endpoints = append(s.Endpoints, e)
			}
			if v6 {
				s = six(s)
			}
			all = append(all, s)
		}
		svc := []*corev1.Service{service("md"), service("other")}
		got := Merge("", svc, all)
		var want []string
		for uid, p := range pods {
			if p.ready && !p.going {
				want = append(want, uid)
			}
		}
		slices.Sort(want)
		var uids []string
		for _, e := range got {
			uids = append(uids, e.UID)
		}
		if !slices.Equal(uids, want) {
			t.Fatalf("routed %v, want %v", uids, want)
		}
		if again := Merge("", svc, rapid.Permutation(all).Draw(t, "order")); !slices.Equal(again, got) {
			t.Fatalf("another order gives %v, not %v", again, got)
		}
	})
}

func FuzzMerge(f *testing.F) {
	seed, _ := json.Marshal([]*discoveryv1.EndpointSlice{slice("md", endpoint("x", "10.0.0.1"), endpoint("", "10.0.0.1")), six(slice("md", endpoint("x", "fd00::1")))})
	f.Add(seed)
	f.Add([]byte(`[{"metadata":{"namespace":"serving","labels":{"kubernetes.io/service-name":"md"}},"addressType":"IPv4","ports":[{"port":0}],"endpoints":[{"addresses":["1.2.3.4"]}]}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var all []*discoveryv1.EndpointSlice
		if json.Unmarshal(data, &all) != nil || slices.Contains(all, nil) {
			return
		}
		svc := []*corev1.Service{service("md")}
		got := Merge("", svc, all)
		uids, at := map[string]bool{}, map[string]bool{}
		for _, e := range got {
			if e.UID == "" || e.Address == "" || e.Owner != "team-a" || uids[e.UID] || at[e.Address] {
				t.Fatalf("%+v among %+v", e, got)
			}
			uids[e.UID], at[e.Address] = true, true
		}
		slices.Reverse(all)
		if again := Merge("", svc, all); !slices.Equal(again, got) {
			t.Fatalf("another order gives %v, not %v", again, got)
		}
	})
}
