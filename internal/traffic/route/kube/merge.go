// Package kube keeps the traffic account's endpoint table current on a
// cluster, from the EndpointSlices of the headless Services that the operator
// makes. What is routable is decided by one pure function over everything that
// is there, so that nothing depends on the order in which slices change.
package kube

import (
	"cmp"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/traffic"
)

// copyOf is one mention of a replica in a slice.
type copyOf struct {
	uid     string // of its Pod; empty: nobody says
	address string // host:port
	six     bool   // an IPv6 address
	node    string
	ready   bool
	going   bool // terminating: final, whatever an older copy says
}

// Merge returns the endpoints that take requests, one for each replica,
// ordered by their UIDs. Slices may be many, overlap and be out of date one by
// one:
//   - a replica is routable if some copy says that it is ready and serving,
//     and none that it terminates;
//   - copies of one Pod, also of several address families, are one endpoint,
//     and so are copies of one address;
//   - slices and Services that do not belong to each other, or to ledger
//     (empty: any), say nothing.
func Merge(ledger string, services []*corev1.Service, slicesOf []*discoveryv1.EndpointSlice) []traffic.Endpoint {
	type key struct{ namespace, name string }
	copies := map[key][]copyOf{}
	for _, s := range slicesOf {
		k := key{s.Namespace, s.Labels[discoveryv1.LabelServiceName]}
		copies[k] = append(copies[k], mentions(s)...)
	}
	out := []traffic.Endpoint{}
	for _, svc := range services {
		routable := distinct(copies[key{svc.Namespace, svc.Name}])
		if len(routable) == 0 {
			continue // also most of a thousand that start
		}
		served, ok := servedBy(svc, ledger)
		if !ok {
			continue
		}
		for _, c := range routable {
			e := served
			e.UID, e.Address, e.Node = c.uid, c.address, c.node
			if e.UID == "" {
				e.UID = served.ObjectUID + "/" + c.address
			}
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b traffic.Endpoint) int {
		return cmp.Or(
			cmp.Compare(a.UID, b.UID), cmp.Compare(a.ObjectUID, b.ObjectUID), cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.RequestID, b.RequestID),
			cmp.Compare(a.Model, b.Model), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Upstream, b.Upstream), cmp.Compare(a.Address, b.Address),
		)
	})
	// One Pod cannot serve two objects; a second Service that claims it changes nothing.
	return slices.CompactFunc(out, func(a, b traffic.Endpoint) bool { return a.UID == b.UID })
}

// servedBy reads what a Service's replicas serve.
func servedBy(svc *corev1.Service, ledger string) (traffic.Endpoint, bool) {
	a := svc.Annotations
	e := traffic.Endpoint{
		Owner: a[v1alpha1.AnnotationTenant], Model: a[v1alpha1.AnnotationModel], Version: a[v1alpha1.AnnotationVersion],
		RequestID: a[v1alpha1.AnnotationID], ObjectUID: a[v1alpha1.AnnotationObjectUID], Upstream: a[v1alpha1.AnnotationUpstream],
	}
	if e.Upstream == "" {
		e.Upstream = e.Model
	}
	if n, err := strconv.Atoi(a[v1alpha1.AnnotationParallel]); err == nil && n > 0 {
		e.Parallel = n
	}
	complete := e.Owner != "" && e.Model != "" && e.Version != "" && e.RequestID != "" && e.ObjectUID != ""
	ours := ledger == "" || a[v1alpha1.AnnotationLedger] == ledger
	return e, complete && ours && svc.DeletionTimestamp == nil
}

// mentions reads the copies of one slice.
func mentions(s *discoveryv1.EndpointSlice) []copyOf {
	port, ok := portOf(s)
	if !ok || s.AddressType == discoveryv1.AddressTypeFQDN || s.DeletionTimestamp != nil {
		return nil
	}
	var out []copyOf
	for _, e := range s.Endpoints {
		if len(e.Addresses) == 0 || net.ParseIP(e.Addresses[0]) == nil {
			continue // consumers use the first address only
		}
		c := copyOf{
			address: net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(port))), six: s.AddressType == discoveryv1.AddressTypeIPv6,
			ready: unless(e.Conditions.Ready, true) && unless(e.Conditions.Serving, true), going: unless(e.Conditions.Terminating, false),
		}
		if e.TargetRef != nil && e.TargetRef.Kind == "Pod" {
			c.uid = string(e.TargetRef.UID)
		}
		if e.NodeName != nil {
			c.node = *e.NodeName
		}
		out = append(out, c)
	}
	return out
}

// portOf is the engine's port: by its name, or the only one.
func portOf(s *discoveryv1.EndpointSlice) (int32, bool) {
	for _, p := range s.Ports {
		named := p.Name != nil && *p.Name == v1alpha1.PortName
		if p.Port != nil && (named || len(s.Ports) == 1) {
			return *p.Port, *p.Port > 0 && *p.Port <= 65535
		}
	}
	return 0, false
}

// unless reads a condition that may be unsaid.
func unless(said *bool, otherwise bool) bool {
	if said == nil {
		return otherwise
	}
	return *said
}

// distinct keeps one copy of each routable replica: IPv4 before IPv6, then the
// lowest address, and of one address the copy that names its Pod.
func distinct(copies []copyOf) []copyOf {
	going := map[string]bool{}
	for _, c := range copies {
		if c.going && c.uid != "" {
			going[c.uid] = true
		}
	}
	copies = slices.DeleteFunc(slices.Clone(copies), func(c copyOf) bool { return !c.ready || c.going || going[c.uid] })
	slices.SortFunc(copies, func(a, b copyOf) int {
		return cmp.Or(rank(a.six)-rank(b.six), rank(a.uid == "")-rank(b.uid == ""), cmp.Compare(a.address, b.address), cmp.Compare(a.uid, b.uid), cmp.Compare(a.node, b.node))
	})
	pods, addresses := map[string]bool{}, map[string]bool{}
	var out []copyOf
	for _, c := range copies {
		if addresses[c.address] || (c.uid != "" && pods[c.uid]) {
			continue
		}
		addresses[c.address], pods[c.uid] = true, true
		out = append(out, c)
	}
	return out
}

func rank(last bool) int {
	if last {
		return 1
	}
	return 0
}
