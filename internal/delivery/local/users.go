package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
)

const (
	firstUID = 200_000
	lastUID  = 299_999
)

// IsEngineUser reports whether uid is one of those that tenants get.
func IsEngineUser(uid int) bool { return uid >= firstUID && uid <= lastUID }

// user is whom a tenant's engines run as. UID 0 means: as ModelDock itself.
type user struct {
	Tenant string
	UID    int
}

// users hands every tenant its own unprivileged uid, the same for ever.
type users struct {
	mu   sync.Mutex
	path string
	uids map[string]int
}

type usersFile struct {
	Version int            `json:"version"`
	UIDs    map[string]int `json:"uids"`
}

func openUsers(path string) (*users, error) {
	u := &users{path: path, uids: map[string]int{}}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return u, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the tenants' uids: %w", err)
	}
	var f usersFile
	if err := json.Unmarshal(raw, &f); err != nil || f.Version != 1 {
		return nil, fmt.Errorf("read the tenants' uids: %s is not a file of version 1 (%w)", path, err)
	}
	if f.UIDs != nil {
		u.uids = f.UIDs
	}
	return u, nil
}

// Known returns the tenant's uid, if it has one.
func (u *users) Known(tenant string) (int, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	uid, known := u.uids[tenant]
	return uid, known
}

// For returns the tenant's uid and makes one up the first time.
func (u *users) For(tenant string) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if uid, ok := u.uids[tenant]; ok {
		return uid, nil
	}
	next := firstUID
	for _, uid := range u.uids {
		next = max(next, uid+1)
	}
	if next > lastUID {
		return 0, fmt.Errorf("find a uid for tenant %s: all from %d to %d are given", tenant, firstUID, lastUID)
	}
	u.uids[tenant] = next
	if err := writeAtomically(u.path, usersFile{Version: 1, UIDs: u.uids}, os.Rename); err != nil {
		delete(u.uids, tenant)
		return 0, fmt.Errorf("find a uid for tenant %s: %w", tenant, err)
	}
	return next, nil
}

// userOf is the uid that the processes of an object run as; 0: as ModelDock itself.
func (t *Target) userOf(rec record) int {
	if os.Geteuid() != 0 {
		return 0
	}
	uid, _ := t.users.Known(rec.ref().Tenant)
	return uid
}

// userFor decides whom an object's engine runs as. Only root can change the
// user. The simulated engine is our own code, but what it is told by arguments
// and environment is its tenant's, so it is no exception.
func (t *Target) userFor(rec record) (user, error) {
	who := user{Tenant: rec.ref().Tenant}
	if os.Geteuid() != 0 {
		return who, nil
	}
	uid, err := t.users.For(who.Tenant)
	who.UID = uid
	return who, err
}
