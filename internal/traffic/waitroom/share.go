package waitroom

import (
	"math"
	"time"
)

// halfLife is how fast a tenant's use of a model is forgotten.
const halfLife = time.Minute

// forgotten is the use in tokens below which a tenant counts as new.
const forgotten = 1

// share is how many tokens of one model a tenant has used of late. Instead of
// letting all shares decay, later tokens weigh more (forward decay: G.
// Cormode, V. Shkapenyuk, D. Srivastava, B. Xu, ICDE 2009), so that time does
// not change the order of two shares and a heap of them stays one.
type share struct {
	used  float64 // in tokens of the time base
	flows [classes]*flow
}

// ranksPerDoubling is how finely use is told apart: tenants who used about as
// much are equals, among whom arrival decides. Finer ranks would let whoever
// happened to use a little more wait for all the others.
const ranksPerDoubling = 2

// rank is the use on a coarse, logarithmic scale; 0 is none.
func (s *share) rank() int {
	if s.used < 1 {
		return 0
	}
	return 1 + int(math.Log2(s.used)*ranksPerDoubling)
}

func (s *share) waiting() bool { return s.flows != [classes]*flow{} }

// scale turns tokens of now into tokens of a base.
type scale struct{ base time.Time }

// maxExponent keeps weights within a float's range.
const maxExponent = 400

func (s *scale) weight(now time.Time) float64 {
	return math.Exp2(float64(now.Sub(s.base)) / float64(halfLife))
}

// due tells that weights have grown so large that the base has to move.
func (s *scale) due(now time.Time) bool { return now.Sub(s.base) > maxExponent*halfLife }

// account returns a tenant's share, a new one if there is none.
func (l *line) account(tenant string) *share {
	s := l.shares[tenant]
	if s == nil {
		s = &share{}
		l.shares[tenant] = s
	}
	return s
}

// charge adds tokens to what a tenant used; negative ones are given back.
func (l *line) charge(tenant string, tokens int64, now time.Time) {
	if l.scale.due(now) {
		l.rebase(now)
	}
	s := l.account(tenant)
	s.used = max(s.used+float64(tokens)*l.scale.weight(now), 0)
	l.reorder(s)
}

// reorder puts a tenant's flows where its share now belongs.
func (l *line) reorder(s *share) {
	for _, f := range s.flows {
		if f != nil && f.index >= 0 {
			l.levels[f.class.level()].fix(f)
		}
	}
}

// rebase makes now the base. It divides all shares alike, which changes no
// order but may move the borders of the ranks.
func (l *line) rebase(now time.Time) {
	w := l.scale.weight(now)
	for _, s := range l.shares {
		s.used /= w
		l.reorder(s)
	}
	l.scale.base = now
}

// forget drops the shares of those who do not wait and used next to nothing
// of late.
func (l *line) forget(now time.Time) {
	least := forgotten * l.scale.weight(now)
	for tenant, s := range l.shares {
		if !s.waiting() && s.used < least {
			delete(l.shares, tenant)
		}
	}
}
