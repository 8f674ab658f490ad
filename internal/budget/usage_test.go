package budget

import (
	"reflect"
	"testing"
	"time"
)

func TestCoursesWalkBackFromWhatIsUsedNow(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
	entry := func(tenant, pool string, slots int64, minute int) Entry {
		return Entry{Ref: Ref{Tenant: tenant, ID: "x"}, Pool: pool, Slots: slots, At: at(minute)}
	}
	u := Usage{
		At:      at(60),
		Tenants: []Tenant{{Name: "a", Cap: 8, Used: 3}, {Name: "b", Cap: 4}},
		Pools:   []Pool{{Name: "default", Cap: 9, Used: 2}, {Name: "fast", Cap: 5, Used: 1}},
		Entries: []Entry{ // newest first
			entry("a", "fast", 1, 40), entry("b", "default", -2, 30), entry("a", "default", 1, 20),
			entry("b", "default", 2, 10), entry("a", "default", 1, 10), entry("a", "default", 4, -50), entry("a", "default", -4, -50),
		},
		Whole: true,
	}
	tenants, pools, from := u.Courses(at(0))
	if !from.Equal(at(0)) {
		t.Errorf("it begins at %s", from)
	}
	want := []Course{
		{Name: "a", Cap: 8, Used: 3, Points: []Point{{at(0), 0}, {at(10), 1}, {at(20), 2}, {at(40), 3}}},
		{Name: "b", Cap: 4, Used: 0, Points: []Point{{at(0), 0}, {at(10), 2}, {at(30), 0}}},
	}
	if !reflect.DeepEqual(tenants, want) {
		t.Errorf("tenants are %v, want %v", tenants, want)
	}
	want = []Course{
		// Two entries of one moment are one point: the result of both.
		{Name: "default", Cap: 9, Used: 2, Points: []Point{{at(0), 0}, {at(10), 3}, {at(20), 4}, {at(30), 2}}},
		{Name: "fast", Cap: 5, Used: 1, Points: []Point{{at(0), 0}, {at(40), 1}}},
	}
	if !reflect.DeepEqual(pools, want) {
		t.Errorf("pools are %v, want %v", pools, want)
	}
}

func TestCoursesBeginWhereTheEntriesDo(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	u := Usage{
		At: noon, Tenants: []Tenant{{Name: "a", Cap: 9, Used: 5}},
		Entries: []Entry{{Ref: Ref{Tenant: "a"}, Slots: 2, At: noon.Add(-time.Minute)}, {Ref: Ref{Tenant: "a"}, Slots: 1, At: noon.Add(-time.Hour)}},
	}
	tenants, _, from := u.Courses(noon.Add(-24 * time.Hour))
	if want := noon.Add(-time.Hour); !from.Equal(want) {
		t.Errorf("it begins at %s, want %s: older entries were not read", from, want)
	}
	want := []Point{{noon.Add(-time.Hour), 3}, {noon.Add(-time.Minute), 5}}
	if !reflect.DeepEqual(tenants[0].Points, want) {
		t.Errorf("points are %v, want %v", tenants[0].Points, want)
	}
}
