package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"modeldock.io/internal/delivery"
)

const (
	factsVersion = 1
	// keepFacts is the retention time of what ended objects' replicas proved.
	keepFacts = 7 * 24 * time.Hour
	// pruneFactsEvery bounds how often the files are looked through.
	pruneFactsEvery = time.Hour
)

// factsFile is what was last known of an object's replicas. It proves what
// happened after they, and the object itself, are gone; nothing is decided by it.
type factsFile struct {
	Version int                `json:"version"`
	UID     string             `json:"uid"` // of the object
	Last    []delivery.Replica `json:"last"`
	Failure *delivery.Failure  `json:"failure,omitempty"` // the latest
}

// factStore keeps one file for each object that ever had a process.
type factStore struct{ dir string }

func openFacts(dir string) (*factStore, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the facts directory: %w", err)
	}
	return &factStore{dir}, nil
}

func (s *factStore) path(object string) string { return filepath.Join(s.dir, object+".json") }

// Save is atomic and not flushed: a power cut may cost the latest facts, and a
// replica's start need not wait for the disk.
func (s *factStore) Save(object, uid string, last []delivery.Replica, failure *delivery.Failure) error {
	raw, err := json.Marshal(factsFile{factsVersion, uid, last, failure})
	if err != nil {
		return fmt.Errorf("encode the facts of %s: %w", object, err)
	}
	next := filepath.Join(s.dir, ".next-"+object)
	if err := os.WriteFile(next, raw, 0o600); err != nil {
		return fmt.Errorf("write the facts of %s: %w", object, err)
	}
	if err := os.Rename(next, s.path(object)); err != nil {
		return fmt.Errorf("write the facts of %s: %w", object, err)
	}
	return nil
}

// Read returns what is known of the replicas of the latest object of a name;
// without a UID where the file is away or cannot be read.
func (s *factStore) Read(object string) factsFile {
	raw, err := os.ReadFile(s.path(object))
	if err != nil {
		return factsFile{}
	}
	var f factsFile
	if json.Unmarshal(raw, &f) != nil || f.Version != factsVersion {
		return factsFile{}
	}
	return f
}

// Prune removes the files of ended objects that are older than the retention.
func (s *factStore) Prune(now time.Time, alive func(object string) bool) error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("look through the facts of ended objects: %w", err)
	}
	var errs []error
	for _, e := range entries {
		object := strings.TrimSuffix(strings.TrimPrefix(e.Name(), ".next-"), ".json")
		info, err := e.Info()
		if err != nil || alive(object) || now.Sub(info.ModTime()) < keepFacts {
			continue
		}
		if err := os.Remove(filepath.Join(s.dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove the facts of an ended object: %w", err))
		}
	}
	return errors.Join(errs...)
}

// recall takes over what an earlier run of ModelDock knew.
func (o *object) recall(facts *factStore) {
	known := facts.Read(o.rec.Name)
	if known.UID != o.rec.UID {
		return // of an object before it
	}
	for _, r := range known.Last {
		number, ours := strings.CutPrefix(r.Name, o.rec.Name+"-")
		if i, err := strconv.Atoi(number); ours && err == nil {
			o.last[i] = r
		}
	}
}

// lastOf lists what is known of every replica when it last had a process: of
// the one that runs, once it has started, else of the one before.
func (t *Target) lastOf(o *object) []delivery.Replica {
	last := maps.Clone(o.last)
	for i, s := range o.slots {
		if s.run == nil || s.run.sleep == Asleep { // it was kept when it fell asleep
			continue
		}
		if _, before := last[i]; !before || !s.run.startedAt.IsZero() {
			last[i] = t.replica(o, s)
		}
	}
	var out []delivery.Replica
	for _, i := range slices.Sorted(maps.Keys(last)) {
		out = append(out, last[i])
	}
	return out
}

// keepLast writes down what is known of an object's replicas. Called under
// the lock.
func (t *Target) keepLast(o *object) {
	if err := t.facts.Save(o.rec.Name, o.rec.UID, t.lastOf(o), o.lastFailure); err != nil {
		t.log.Warn("cannot keep the facts of a replica; its evidence will lack them after the release", "object", o.rec.Name, "err", err)
	}
}

// pruneFacts is called under the lock.
func (t *Target) pruneFacts(now time.Time) {
	if now.Sub(t.prunedAt) < pruneFactsEvery {
		return
	}
	t.prunedAt = now
	if err := t.facts.Prune(now, func(object string) bool { return t.objects[object] != nil }); err != nil {
		t.log.Warn("cannot remove old facts", "err", err)
	}
}
