package gateway

import (
	"hash/fnv"
	"math"
	"math/rand/v2"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/route"
)

func keyOf(m *traffic.Model) route.Key {
	return route.Key{Owner: m.Owner, Model: m.Name, Version: m.Version}
}

// chooseVersion shares the requests of one name among its versions by weight.
// Versions with a ready replica go before those that would have to be waited
// for, and those before what cannot load. versions is not empty.
func (g *Gateway) chooseVersion(versions []*traffic.Model, session string) *traffic.Model {
	if len(versions) == 1 {
		return versions[0]
	}
	ready := keep(versions, func(m *traffic.Model) bool { return g.cfg.Table.Ready(keyOf(m)) })
	if len(ready) == 0 {
		ready = keep(versions, func(m *traffic.Model) bool { return m.Failure == "" })
	}
	if len(ready) == 0 {
		ready = versions
	}
	if session != "" {
		return bySession(ready, session)
	}
	return byWeight(ready, rand.IntN)
}

func keep(versions []*traffic.Model, wanted func(*traffic.Model) bool) []*traffic.Model {
	kept := make([]*traffic.Model, 0, len(versions))
	for _, m := range versions {
		if wanted(m) {
			kept = append(kept, m)
		}
	}
	return kept
}

func byWeight(versions []*traffic.Model, random func(n int) int) *traffic.Model {
	sum := 0
	for _, m := range versions {
		sum += max(m.Weight, 0)
	}
	if sum == 0 { // one version, asked for by name
		return versions[0]
	}
	at := random(sum)
	for _, m := range versions {
		if at -= max(m.Weight, 0); at < 0 {
			return m
		}
	}
	return versions[len(versions)-1]
}

// bySession is weighted rendezvous hashing: a session keeps its version while
// that version takes traffic, and only the sessions of a version that went
// away move. (D. Thaler, C. Ravishankar, A Name-Based Mapping Scheme for
// Rendezvous, 1996; the weighted score is by J. Resch, SNIA SDC 2015.)
func bySession(versions []*traffic.Model, session string) *traffic.Model {
	var best *traffic.Model
	highest := math.Inf(-1)
	for _, m := range versions {
		h := fnv.New64a()
		_, _ = h.Write([]byte(session))
		_, _ = h.Write([]byte{0})
		_, _ = h.Write([]byte(m.Version))
		score := float64(m.Weight) / -math.Log(unit(h.Sum64()))
		if best == nil || score > highest {
			best, highest = m, score
		}
	}
	return best
}

// unit maps a hash into the open interval (0,1). FNV alone mixes the last
// bytes badly into the upper bits, so that it is finished as in MurmurHash3.
func unit(h uint64) float64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return (float64(h>>11) + 0.5) / (1 << 53)
}
