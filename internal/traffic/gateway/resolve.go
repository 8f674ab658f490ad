package gateway

import (
	"fmt"
	"net/http"
	"strings"

	"modeldock.io/internal/traffic"
)

// modelName is what a caller wrote: name, name@version or
// owner/name[@version].
type modelName struct {
	written   string
	owner     string // empty: not named
	name      string
	version   string
	versioned bool
}

func parseName(written string) modelName {
	n := modelName{written: written, name: written}
	if owner, name, ok := strings.Cut(written, "/"); ok {
		n.owner, n.name = owner, name
		if owner == "" {
			n.name = "" // "/name" names nothing
		}
	}
	if name, version, ok := strings.Cut(n.name, "@"); ok {
		n.name, n.version, n.versioned = name, version, true
	}
	return n
}

// resolve returns the versions that may take the request: the one that was
// asked for, or all that share the name's traffic. What the caller may not use
// and what does not exist give the same answer.
func (i *index) resolve(key *traffic.Key, n modelName) ([]*traffic.Model, error) {
	owner, err := i.ownerOf(key, n)
	if err != nil {
		return nil, err
	}
	var found []*traffic.Model
	for _, m := range i.live[ownedName{owner, n.name}] {
		if n.versioned && m.Version == n.version || !n.versioned && m.Weight > 0 {
			found = append(found, m)
		}
	}
	if len(found) == 0 {
		return nil, i.absent(n.written, owner, n.name)
	}
	return found, nil
}

// ownerOf decides whose model is meant.
func (i *index) ownerOf(key *traffic.Key, n modelName) (string, error) {
	if n.owner != "" {
		if key.Admin || key.Tenant != "" && (n.owner == key.Tenant || i.mayUse(n.owner, n.name, key.Tenant)) {
			return n.owner, nil
		}
		return "", modelNotFound(n.written)
	}
	if key.Tenant != "" {
		// A name the caller ever owned stays theirs: no prompt goes to
		// somebody else's model because their own was released.
		_, ever := i.snapshot.Owned[key.Tenant][n.name]
		if ever || i.live[ownedName{key.Tenant, n.name}] != nil {
			return key.Tenant, nil
		}
	}
	var owners []string
	switch {
	case key.Admin:
		owners = i.owners[n.name]
	case key.Tenant != "":
		// Grants count whether or not their model runs, so that the answer
		// does not change hands when one of two is released.
		owners = i.granted[ownedName{key.Tenant, n.name}]
		// Nor when one of two is taken back.
		if before := i.before[ownedName{key.Tenant, n.name}]; len(owners) == 1 && len(before) > 0 {
			return "", anotherModel(n, owners[0], before[0], key.Tenant)
		}
	}
	switch len(owners) {
	case 0:
		return "", modelNotFound(n.written)
	case 1:
		return owners[0], nil
	}
	return "", ambiguousModel(n, owners)
}

// absent says that a model is not known: it does not exist, or it may be one of
// those that wait for budget, of which its owner has more than are looked at.
func (i *index) absent(written, owner, name string) error {
	_, crowded := i.snapshot.Crowded[owner]
	if _, ever := i.snapshot.Owned[owner][name]; crowded && ever {
		return notLookedAt(written, owner)
	}
	return modelNotFound(written)
}

func (i *index) mayUse(owner, model, grantee string) bool {
	_, ok := i.snapshot.Grants[traffic.GrantKey{Owner: owner, Model: model, Grantee: grantee}]
	return ok
}

func anotherModel(n modelName, owner, before, tenant string) error {
	return &failure{
		status: http.StatusBadRequest, kind: typeRequest, code: "ambiguous_model", param: "model",
		message: fmt.Sprintf("%.200q could mean %s/%s before, a model that is not granted to you any more; say %s/%s if you mean that one, "+
			"or have your tenant give up the old grant for good (modeldock grant remove %s %s %s)", n.written, before, n.name, owner, n.written, before, n.name, tenant),
		outcome: traffic.NotFound,
	}
}

func ambiguousModel(n modelName, owners []string) error {
	const most = 5
	examples := make([]string, 0, most)
	for _, o := range owners[:min(len(owners), most)] {
		examples = append(examples, o+"/"+n.written)
	}
	return &failure{
		status: http.StatusBadRequest, kind: typeRequest, code: "ambiguous_model", param: "model",
		message: fmt.Sprintf("%d owners have a model %.200q that you may use; name the owner, for example %s",
			len(owners), n.name, strings.Join(examples, ", ")),
		outcome: traffic.NotFound,
	}
}
