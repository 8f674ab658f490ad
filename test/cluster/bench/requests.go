package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"modeldock.io/test/cluster/dock"
)

// requestsPerObject says what the API server was asked since a moment, in
// requests for each of the objects that were made: writes of everybody, and
// what we read. The bench's own are among them; Leases and watches are not.
func (s *stage) requestsPerObject(since time.Time) (string, error) {
	events, err := s.cluster.Audit()
	if err != nil {
		return "", err
	}
	counts := map[string]int{}
	for _, e := range events {
		whose := "theirs"
		if strings.HasPrefix(e.User.Username, "system:serviceaccount:"+dock.System+":") {
			whose = "ours"
		}
		counted := e.Writes() || whose == "ours" && e.Verb != "watch"
		if e.Received.Before(since) || !counted || e.ObjectRef.Resource == "leases" {
			continue
		}
		what := e.ObjectRef.Resource
		if e.ObjectRef.Subresource != "" {
			what += "/" + e.ObjectRef.Subresource
		}
		counts[whose]++
		counts[whose+" "+e.Verb+" "+what]++
	}
	of := func(n int) float64 { return float64(n) / float64(s.plan.objects) }
	var parts []string
	for _, what := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b)) }) {
		if n := of(counts[what]); n >= 0.02 && strings.Contains(what, " ") {
			parts = append(parts, fmt.Sprintf("%s %.1f", what, n))
		}
	}
	return fmt.Sprintf("%.1f theirs and %.1f ours: %s", of(counts["theirs"]), of(counts["ours"]), strings.Join(parts, ", ")), nil
}
