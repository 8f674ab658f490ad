package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"modeldock.io/internal/delivery/engine"
	"modeldock.io/internal/modelspec"
)

// weights returns a path to the file:// source that the engine's user can
// read; empty where the source is none. As root, a GGUF that the user cannot
// read is copied into a directory that only this tenant can enter.
func (t *Target) weights(ctx context.Context, who user, m modelspec.Model) (string, error) {
	src, err := engine.ParseSource(m.Source)
	if err != nil || src.Scheme != "file" {
		return "", err
	}
	// The real path decides: a link must lead neither into the data directory
	// nor, later, somewhere else.
	path, err := filepath.EvalSymlinks(src.Rest)
	if err != nil {
		return "", fmt.Errorf("model.source file://%s cannot be found on this machine: %w", src.Rest, err)
	}
	if within(t.cfg.DataDir, path) {
		return "", fmt.Errorf("model.source file://%s leads into ModelDock's data directory, which no model may read: move the weights elsewhere", src.Rest)
	}
	if who.UID == 0 {
		f, err := os.Open(path)
		if err != nil {
			return "", fmt.Errorf("model.source file://%s cannot be read: %w", src.Rest, err)
		}
		return path, f.Close()
	}
	if readableBy(path, who.UID) {
		return path, nil
	}
	return t.handOver(ctx, who, path)
}

func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// readableBy looks at the modes along the path, for a user that is in no
// group but its own. Where access lists would allow more, a copy is made for
// nothing; they are not read.
func readableBy(path string, uid int) bool {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if !allows(dir, uid, 0o1) {
			return false
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		return allows(path, uid, 0o5)
	}
	return err == nil && allows(path, uid, 0o4)
}

func allows(path string, uid int, bits fs.FileMode) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	if int(st.Uid) == uid {
		bits <<= 6
	}
	return info.Mode().Perm()&bits == bits
}

// handOver copies a GGUF for the tenant. Only a file that really is one is
// handed over: root's rights must not become a way to read anything else.
func (t *Target) handOver(ctx context.Context, who user, path string) (string, error) {
	fix := fmt.Sprintf("make it readable for uid %d (chmod o+r the file, o+x every folder above it)", who.UID)
	in, err := openRealPath(path)
	if err != nil {
		return "", fmt.Errorf("hand %s to tenant %s: %w", path, who.Tenant, err)
	}
	defer func() { _ = in.Close() }()
	info, err := in.Stat()
	if err != nil {
		return "", fmt.Errorf("hand %s to tenant %s: %w", path, who.Tenant, err)
	}
	magic := make([]byte, 4)
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s cannot be read by uid %d of tenant %s and is not a single file that could be copied: %s", path, who.UID, who.Tenant, fix)
	}
	if _, err := in.ReadAt(magic, 0); err != nil || string(magic) != "GGUF" {
		return "", fmt.Errorf("%s cannot be read by uid %d of tenant %s and is not a GGUF file, so it is not copied for it: %s", path, who.UID, who.Tenant, fix)
	}
	dir, err := t.scratch.Models(who)
	if err != nil {
		return "", err
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%d", path, info.Size(), info.ModTime().UnixNano()))
	target := filepath.Join(dir, hex.EncodeToString(key[:8])+".gguf")
	if have, err := os.Lstat(target); err == nil && have.Mode().IsRegular() && have.Size() == info.Size() {
		return target, nil
	}
	if err := copyFor(ctx, in, info.Size(), target, who.UID); err != nil {
		return "", fmt.Errorf("copy %s (%d MiB) for uid %d of tenant %s: %w; or %s", path, info.Size()>>20, who.UID, who.Tenant, err, fix)
	}
	t.log.Info("copied weights that the tenant's engines could not read", "from", path, "to", target, "tenant", who.Tenant, "uid", who.UID)
	return target, nil
}

// openRealPath opens a path that holds no link anywhere, so that what was
// checked about it stays true.
func openRealPath(path string) (*os.File, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// copyFor copies in, sharing its blocks where the file system can, to a file
// that root owns and the group gid may read.
func copyFor(ctx context.Context, in *os.File, size int64, target string, gid int) error {
	out, err := os.CreateTemp(filepath.Dir(target), ".copy-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(out.Name()) }() // already gone after the rename
	err = unix.IoctlFileClone(int(out.Fd()), int(in.Fd()))
	if err != nil {
		if err = enoughSpace(filepath.Dir(target), size); err == nil {
			_, err = io.Copy(out, &cancellable{ctx, io.NewSectionReader(in, 0, size)})
		}
	}
	return errors.Join(err, out.Chmod(0o440), out.Chown(0, gid), out.Close(), renameIf(err == nil, out.Name(), target))
}

func renameIf(ok bool, from, to string) error {
	if !ok {
		return nil
	}
	return os.Rename(from, to)
}

func enoughSpace(dir string, size int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return err
	}
	if free := int64(st.Bavail) * st.Bsize; free < size { //nolint:gosec // block counts are far below 2^63
		return fmt.Errorf("%s has %d MiB free and %d are needed", dir, free>>20, size>>20)
	}
	return nil
}

// cancellable is a reader that ends with its context.
type cancellable struct {
	ctx context.Context //nolint:containedctx // it lives for one copy
	r   io.Reader
}

func (c *cancellable) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
