package feed

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"modeldock.io/internal/traffic"
)

// documentFormat is advanced when an older gateway could not understand it.
const documentFormat = 1

// document is a snapshot on its way and on disk. When it was taken is no part
// of it: one that says the same is the same.
type document struct {
	Format int
	Ledger string
	Keys   []traffic.Key
	Models []traffic.Model
	Grants []traffic.GrantKey
	Owned  map[string][]string
	// Limits came later: a gateway that does not know them limits nobody.
	Limits []tenantLimits `json:",omitempty"`
	// TakenBack came later: to a gateway that does not know them, a name may
	// mean another owner's model.
	TakenBack []traffic.GrantKey `json:",omitempty"`
	// Crowded came later: a gateway that does not know them answers 404.
	Crowded []string `json:",omitempty"`
}

type tenantLimits struct {
	Tenant string
	Limits traffic.Limits
}

// encode returns a snapshot's document and the tag that names its content.
func encode(s *traffic.Snapshot) (body []byte, tag string, err error) {
	d := document{Format: documentFormat, Ledger: s.Ledger, Models: slices.Clone(s.Models), Owned: make(map[string][]string, len(s.Owned))}
	for _, id := range slices.Sorted(maps.Keys(s.Keys)) {
		d.Keys = append(d.Keys, s.Keys[id])
	}
	slices.SortFunc(d.Models, func(a, b traffic.Model) int {
		return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version), cmp.Compare(a.RequestID, b.RequestID))
	})
	d.Grants, d.TakenBack = inOrder(s.Grants), inOrder(s.TakenBack)
	d.Crowded = slices.Sorted(maps.Keys(s.Crowded))
	for tenant, names := range s.Owned {
		d.Owned[tenant] = slices.Sorted(maps.Keys(names))
	}
	for _, tenant := range slices.Sorted(maps.Keys(s.Limits)) {
		d.Limits = append(d.Limits, tenantLimits{tenant, s.Limits[tenant]})
	}
	if body, err = json.Marshal(d); err != nil {
		return nil, "", fmt.Errorf("encode the snapshot: %w", err)
	}
	sum := sha256.Sum256(body)
	return body, `"` + hex.EncodeToString(sum[:16]) + `"`, nil
}

func inOrder(grants map[traffic.GrantKey]struct{}) []traffic.GrantKey {
	return slices.SortedFunc(maps.Keys(grants), func(a, b traffic.GrantKey) int {
		return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Grantee, b.Grantee))
	})
}

// decode is the other way; the caller says when the snapshot was true.
func decode(body []byte) (*traffic.Snapshot, error) {
	var d document
	if err := json.Unmarshal(body, &d); err != nil {
		return nil, fmt.Errorf("read a snapshot of %d bytes: %w", len(body), err)
	}
	if d.Format != documentFormat {
		return nil, fmt.Errorf("read a snapshot: its format is %d, and this gateway knows %d: bring gateways and controllers to one version", d.Format, documentFormat)
	}
	s := &traffic.Snapshot{
		Ledger: d.Ledger,
		Keys:   make(map[string]traffic.Key, len(d.Keys)), Models: d.Models,
		Grants: set(d.Grants), TakenBack: set(d.TakenBack), Owned: make(map[string]map[string]struct{}, len(d.Owned)),
	}
	for _, k := range d.Keys {
		s.Keys[k.ID] = k
	}
	for _, l := range d.Limits {
		if s.Limits == nil {
			s.Limits = make(map[string]traffic.Limits, len(d.Limits))
		}
		s.Limits[l.Tenant] = l.Limits
	}
	if len(d.Crowded) > 0 {
		s.Crowded = set(d.Crowded)
	}
	for tenant, names := range d.Owned {
		s.Owned[tenant] = set(names)
	}
	return s, nil
}

func set[T comparable](all []T) map[T]struct{} {
	out := make(map[T]struct{}, len(all))
	for _, v := range all {
		out[v] = struct{}{}
	}
	return out
}
