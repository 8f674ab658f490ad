package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// scratch gives engines directories of their own, outside the data directory,
// which they must not be able to enter:
//
//	TMP/modeldock-<euid>-<identity>/        ours, others may pass through
//	    u<uid>/                             ours, only the tenant may pass
//	        models/                         ours, weights handed over, read-only
//	        <object>/                       the engine's own, 0700
type scratch struct {
	root string
	mu   sync.Mutex // replicas that start together do not see half-made directories
}

func newScratch(tempDir, identity string) *scratch {
	return &scratch{root: filepath.Join(tempDir, scratchPrefix+fmt.Sprintf("%d-%s", os.Geteuid(), identity))}
}

const scratchPrefix = "modeldock-"

// isScratch knows the names of such directories, whoever's ModelDock made them.
func isScratch(name string) bool {
	rest, ours := strings.CutPrefix(name, scratchPrefix)
	uid, identity, _ := strings.Cut(rest, "-")
	_, err := strconv.ParseUint(uid, 10, 32)
	return ours && err == nil && identity != ""
}

// Work returns the object's directory, made if need be.
func (s *scratch) Work(who user, object string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	home, err := s.home(who)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(home, object)
	if err := ownDir(dir, who.UID, who.UID, 0o700); err != nil {
		return "", err
	}
	// TMPDIR. Its parent belongs to the engine, so it is made without
	// following what the engine may have put there.
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", fmt.Errorf("open the engine's directory: %w", err)
	}
	defer func() { _ = root.Close() }()
	if err := root.Mkdir("tmp", 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make the engine's directory: %w", err)
	}
	if who.UID > 0 {
		if err := root.Lchown("tmp", who.UID, who.UID); err != nil {
			return "", fmt.Errorf("give the engine its directory: %w", err)
		}
	}
	return dir, nil
}

// Models returns the directory for weights handed to a tenant.
func (s *scratch) Models(who user) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	home, err := s.home(who)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(home, "models")
	return dir, ownDir(dir, 0, who.UID, 0o750)
}

func (s *scratch) home(who user) (string, error) {
	if err := ownDir(s.root, os.Geteuid(), os.Getegid(), 0o711); err != nil {
		return "", err
	}
	home := filepath.Join(s.root, "u"+strconv.Itoa(who.UID))
	return home, ownDir(home, os.Geteuid(), who.UID, 0o710)
}

// Remove deletes an object's directories.
func (s *scratch) Remove(object string) error {
	homes, err := filepath.Glob(filepath.Join(s.root, "u*"))
	if err != nil {
		return fmt.Errorf("remove the engine's directory: %w", err)
	}
	var errs []error
	for _, h := range homes {
		errs = append(errs, os.RemoveAll(filepath.Join(h, object)))
	}
	return errors.Join(errs...)
}

// RemoveModels deletes the copies of weights that a tenant was handed.
func (s *scratch) RemoveModels(uid int) error {
	return os.RemoveAll(filepath.Join(s.root, "u"+strconv.Itoa(uid), "models"))
}

// Prune removes every directory that is empty, so that a data directory that
// is not used any more leaves nothing behind; they are made again when they
// are needed. What is in a tenant's directories may be links that lead
// elsewhere, so nothing is followed.
func (s *scratch) Prune() {
	root, err := os.OpenRoot(s.root)
	if err != nil {
		return // there is none
	}
	var dirs []string
	_ = fs.WalkDir(root.FS(), ".", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fs.SkipDir // it stays
		case e.IsDir() && path != ".":
			dirs = append(dirs, path)
		}
		return nil
	})
	for _, d := range slices.Backward(dirs) { // what is inside comes first
		_ = root.Remove(d) // Remove leaves what is not empty
	}
	_ = root.Close()
	_ = os.Remove(s.root)
}

// ownDir makes a directory with this owner and mode, or checks that what is
// there is one: the temporary directory is everybody's, and somebody could
// have put something else in our place.
func ownDir(path string, uid, gid int, mode fs.FileMode) error {
	root := os.Geteuid() == 0
	if !root {
		uid, gid = os.Geteuid(), os.Getegid()
	}
	err := os.Mkdir(path, 0o700)
	made := err == nil
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make a directory for engines: %w", err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("make a directory for engines: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || (!made && int(st.Uid) != uid) {
		return fmt.Errorf("make a directory for engines: %s is there already and is not a directory of uid %d; remove it, or set TMPDIR to another place", path, uid)
	}
	if root && (made || int(st.Gid) != gid) {
		if err := os.Lchown(path, uid, gid); err != nil {
			return fmt.Errorf("give a directory to uid %d: %w", uid, err)
		}
	}
	if info.Mode().Perm() != mode {
		if err := os.Chmod(path, mode); err != nil {
			return fmt.Errorf("set the mode of a directory for engines: %w", err)
		}
	}
	return nil
}
