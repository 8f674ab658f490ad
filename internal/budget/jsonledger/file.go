package jsonledger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lockFile takes the lock beside the ledger, or fails at once if somebody has it.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the ledger %s: %w", path, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = errors.New("it is already open, stop the other process first")
		}
		return nil, errors.Join(fmt.Errorf("lock the ledger %s: %w", path, err), f.Close())
	}
	return f, nil
}

// replaceFile writes content beside path, makes it durable and renames it
// over path: after a crash either the old or the new content is there.
func replaceFile(path string, content []byte) error {
	next := path + ".next"
	if err := writeDurably(next, content); err != nil {
		return fmt.Errorf("write the ledger %s: %w", path, err)
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("replace the ledger %s: %w", path, err)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("replace the ledger %s: %w", path, err)
	}
	// The rename itself is durable only once the folder is.
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("replace the ledger %s: %w", path, err)
	}
	return nil
}

func writeDurably(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}
