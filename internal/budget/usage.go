package budget

import "time"

// Usage is one moment of the quotas and pools, and the journal's entries that
// led to it.
type Usage struct {
	At      time.Time
	Tenants []Tenant
	Pools   []Pool
	Entries []Entry // newest first
	Whole   bool    // the journal has no older entry
}

// Point says how many slots were used from At on.
type Point struct {
	At   time.Time
	Used int64
}

// Course is how the use of one quota or pool came to be what it is.
type Course struct {
	Name      string
	Cap, Used int64
	Points    []Point // oldest first; the first says what was used at the beginning
}

// Courses walks the journal back from what is used now. It covers the time
// from since on, or, where the entries do not reach so far, from the oldest
// one on: the moment is returned.
func (u Usage) Courses(since time.Time) (tenants, pools []Course, from time.Time) {
	from = since
	if n := len(u.Entries); !u.Whole && n > 0 && u.Entries[n-1].At.After(since) {
		from = u.Entries[n-1].At
	}
	for _, t := range u.Tenants {
		c := Course{Name: t.Name, Cap: t.Cap, Used: t.Used}
		c.walk(u.Entries, from, func(e *Entry) bool { return e.Tenant == t.Name })
		tenants = append(tenants, c)
	}
	for _, p := range u.Pools {
		c := Course{Name: p.Name, Cap: p.Cap, Used: p.Used}
		c.walk(u.Entries, from, func(e *Entry) bool { return e.Pool == p.Name })
		pools = append(pools, c)
	}
	return tenants, pools, from
}

// walk goes back in time: before an entry, its slots were not used yet. Of
// entries of the same moment only the last result is a point.
func (c *Course) walk(entries []Entry, from time.Time, own func(*Entry) bool) {
	used := c.Used
	var back []Point
	for i := range entries {
		e := &entries[i]
		if !own(e) {
			continue
		}
		if !e.At.After(from) {
			break
		}
		if n := len(back); n == 0 || back[n-1].At.After(e.At) {
			back = append(back, Point{At: e.At, Used: used})
		}
		used -= e.Slots
	}
	c.Points = append(c.Points, Point{At: from, Used: used})
	for i := len(back) - 1; i >= 0; i-- {
		c.Points = append(c.Points, back[i])
	}
}
