package dra

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

const (
	checkpointFile    = "prepared.json"
	checkpointVersion = 1
)

// prepared is a claim whose cards were given to a Pod.
type prepared struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	Request   string    `json:"request"`
	Shares    []share   `json:"shares"`
}

// share is a claim's part of one card.
type share struct {
	Device  string     `json:"device"` // its name in the ResourceSlice
	Card    string     `json:"card"`   // its uuid
	MiB     int64      `json:"miB"`
	ShareID *types.UID `json:"shareID,omitempty"`
}

// cards are the uuids, each once: a claim may have two shares of one card.
func (p prepared) cards() []string {
	var out []string
	for _, s := range p.Shares {
		if !slices.Contains(out, s.Card) {
			out = append(out, s.Card)
		}
	}
	return out
}

// checkpoint remembers over restarts what is prepared: the kubelet asks to undo
// it by the claim's UID alone. The methods are not for several goroutines.
type checkpoint struct {
	path   string
	claims map[types.UID]prepared
}

// checkpointV1 is the file.
type checkpointV1 struct {
	Version int        `json:"version"`
	Claims  []prepared `json:"claims"`
}

// openCheckpoint reads the file, or begins a new one where there is none.
func openCheckpoint(dir string) (*checkpoint, error) {
	c := &checkpoint{path: filepath.Join(dir, checkpointFile), claims: map[types.UID]prepared{}}
	text, err := os.ReadFile(c.path)
	if errors.Is(err, os.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read which claims are prepared: %w", err)
	}
	if err := c.read(text); err != nil {
		return nil, fmt.Errorf("read which claims are prepared from %s: %w", c.path, err)
	}
	return c, nil
}

func (c *checkpoint) read(text []byte) error {
	var head struct{ Version int }
	if err := json.Unmarshal(text, &head); err != nil {
		return fmt.Errorf("%w: move the file away; Pods that run keep their cards, and are prepared anew when they start again", err)
	}
	switch head.Version {
	case checkpointVersion:
		var file checkpointV1
		if err := json.Unmarshal(text, &file); err != nil {
			return err
		}
		for _, p := range file.Claims {
			c.claims[p.UID] = p
		}
		return nil
	default: // older ones are converted here, once there are any
		return fmt.Errorf("it has version %d and this agent knows %d: run the agent that wrote it, or a later one", head.Version, checkpointVersion)
	}
}

// put and remove change the file first: what is not in it did not happen.
func (c *checkpoint) put(p prepared) error {
	next := maps.Clone(c.claims)
	next[p.UID] = p
	return c.store(next)
}

func (c *checkpoint) remove(uid types.UID) error {
	if _, there := c.claims[uid]; !there {
		return nil
	}
	next := maps.Clone(c.claims)
	delete(next, uid)
	return c.store(next)
}

func (c *checkpoint) store(claims map[types.UID]prepared) error {
	file := checkpointV1{Version: checkpointVersion, Claims: []prepared{}}
	for _, p := range claims {
		file.Claims = append(file.Claims, p)
	}
	text, err := json.Marshal(file)
	if err == nil {
		err = writeFile(c.path, text)
	}
	if err != nil {
		return fmt.Errorf("write down which claims are prepared: %w", err)
	}
	c.claims = claims
	return nil
}

// writeFile replaces a file as a whole, on the disk too. Others may read it:
// container runtimes do, and nothing in it is secret.
func writeFile(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
