package gateway

import (
	"cmp"
	"slices"
	"strings"

	"modeldock.io/internal/traffic"
)

// ownedName is a model's name with the tenant who serves it.
type ownedName struct{ owner, name string }

// index is a snapshot with what its lists are searched by.
type index struct {
	snapshot *traffic.Snapshot
	live     map[ownedName][]*traffic.Model // takes requests; by version
	owners   map[string][]string            // of live models, by name
	granted  map[ownedName][]string         // owners, by grantee and name
	before   map[ownedName][]string         // owners who took it back, by grantee and name
	grantees map[string][]ownedName         // what was granted to whom
}

func newIndex(s *traffic.Snapshot) *index {
	i := &index{
		snapshot: s,
		live:     map[ownedName][]*traffic.Model{},
		owners:   map[string][]string{},
		granted:  map[ownedName][]string{},
		before:   map[ownedName][]string{},
		grantees: map[string][]ownedName{},
	}
	for n := range s.Models {
		m := &s.Models[n]
		if m.ReleaseAsked {
			continue
		}
		name := ownedName{m.Owner, m.Name}
		if i.live[name] == nil {
			i.owners[m.Name] = append(i.owners[m.Name], m.Owner)
		}
		i.live[name] = append(i.live[name], m)
	}
	for _, versions := range i.live {
		slices.SortFunc(versions, func(a, b *traffic.Model) int { return strings.Compare(a.Version, b.Version) })
	}
	for g := range s.Grants {
		to := ownedName{g.Grantee, g.Model}
		i.granted[to] = append(i.granted[to], g.Owner)
		i.grantees[g.Grantee] = append(i.grantees[g.Grantee], ownedName{g.Owner, g.Model})
	}
	for g := range s.TakenBack {
		if _, again := s.Grants[g]; !again {
			to := ownedName{g.Grantee, g.Model}
			i.before[to] = append(i.before[to], g.Owner)
		}
	}
	for _, lists := range []map[ownedName][]string{i.granted, i.before} {
		for _, owners := range lists {
			slices.Sort(owners)
		}
	}
	return i
}

// current returns the live model of one version, nil if it is gone.
func (i *index) current(m *traffic.Model) *traffic.Model {
	for _, v := range i.live[ownedName{m.Owner, m.Name}] {
		if v.Version == m.Version && v.RequestID == m.RequestID {
			return v
		}
	}
	return nil
}

// visible lists the names that a key may call, in order.
func (i *index) visible(key *traffic.Key) []ownedName {
	var names []ownedName
	add := func(n ownedName) {
		if slices.ContainsFunc(i.live[n], func(m *traffic.Model) bool { return !m.Pending }) {
			names = append(names, n)
		}
	}
	if key.Admin {
		for n := range i.live {
			add(n)
		}
	} else if key.Tenant != "" {
		for n := range i.live {
			if n.owner == key.Tenant {
				add(n)
			}
		}
		for _, n := range i.grantees[key.Tenant] {
			if n.owner != key.Tenant {
				add(n)
			}
		}
	}
	slices.SortFunc(names, func(a, b ownedName) int {
		return cmp.Or(strings.Compare(a.owner, b.owner), strings.Compare(a.name, b.name))
	})
	return names
}
