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
// read is copied into a directory that only this tenant can enter. It ends
// with ctx, however long a file system takes.
func (t *Target) weights(ctx context.Context, who user, m modelspec.Model) (string, error) {
	src, err := engine.ParseSource(m.Source)
	if err != nil || src.Scheme != "file" {
		return "", err
	}
	if within(t.cfg.DataDir, filepath.Clean(src.Rest)) {
		return "", fmt.Errorf("model.source file://%s is in ModelDock's data directory, which no model may read: move the weights elsewhere", src.Rest)
	}
	if t.engines(filepath.Clean(src.Rest)) {
		return "", fmt.Errorf("model.source file://%s is in a directory that ModelDock made for engines, whose files are no weights: put them somewhere else", src.Rest)
	}
	return untilEnd(ctx, func() (string, error) { return t.locate(ctx, who, src.Rest) })
}

// untilEnd asks for a path until ctx ends: the kernel lets nobody interrupt a
// file system that does not answer, so whoever asks it is left behind.
func untilEnd(ctx context.Context, ask func() (string, error)) (string, error) {
	type answer struct {
		path string
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		path, err := ask()
		done <- answer{path, err}
	}()
	select {
	case a := <-done:
		return a.path, a.err
	case <-ctx.Done():
		return "", fmt.Errorf("stopped while the weights were looked at: %w", context.Cause(ctx))
	}
}

// locate looks at the file as ModelDock's own user. A tenant must not learn from
// it what only that user can see, so that whatever keeps the engine's user
// from a file has the same words; the log has the reason.
func (t *Target) locate(ctx context.Context, who user, source string) (string, error) {
	path, err := t.readable(ctx, who, source)
	var untold *untoldError
	if !errors.As(err, &untold) {
		return path, err
	}
	t.log.Warn("weights cannot be used", "source", source, "tenant", who.Tenant, "err", untold)
	if who.UID == 0 {
		return "", fmt.Errorf("model.source file://%s is no file or directory that can be read here: %w", source, untold.error)
	}
	return "", fmt.Errorf("model.source file://%s is not there, or cannot be read by uid %d of tenant %s: it must be a file or a directory, readable for that uid (chmod o+r it, o+x every folder above it) or a single GGUF file, which ModelDock copies for it; ModelDock's log says more", source, who.UID, who.Tenant)
}

// untoldError is what only ModelDock's own user may know of a file.
type untoldError struct{ error }

func untold(format string, args ...any) error { return &untoldError{fmt.Errorf(format, args...)} }

func (t *Target) readable(ctx context.Context, who user, source string) (string, error) {
	// The real path decides: a link must lead neither into a directory of ours
	// nor, later, somewhere else.
	path, err := filepath.EvalSymlinks(source)
	if err != nil {
		return "", untold("find it: %w", err)
	}
	if within(t.cfg.DataDir, path) {
		return "", untold("it leads into ModelDock's data directory, which no model may read")
	}
	if t.engines(path) {
		return "", untold("it leads into a directory that ModelDock made for engines")
	}
	in, err := openRealPath(path)
	if err != nil {
		return "", untold("read it: %w", err)
	}
	defer func() { _ = in.Close() }()
	info, err := in.Stat()
	switch {
	case err != nil:
		return "", untold("look at it: %w", err)
	case !info.Mode().IsRegular() && !info.IsDir():
		return "", untold("it is neither a file nor a directory (%s)", info.Mode())
	case who.UID == 0, readableBy(path, who.UID):
		return path, nil
	}
	return t.handOver(ctx, who, path, in, info)
}

func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// engines reports whether a path lies in what this or another ModelDock made
// for engines in the same place.
func (t *Target) engines(path string) bool {
	rel, err := filepath.Rel(t.cfg.TempDir, path)
	top, _, _ := strings.Cut(rel, "/")
	return within(t.scratch.root, path) || err == nil && isScratch(top)
}

// anothers reports whether a file was made by, or for, engines of a tenant
// that is not who, wherever it lies.
func anothers(info fs.FileInfo, who user) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return !ok || IsEngineUser(int(st.Uid)) && int(st.Uid) != who.UID || IsEngineUser(int(st.Gid)) && int(st.Gid) != who.UID
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
func (t *Target) handOver(ctx context.Context, who user, path string, in *os.File, info fs.FileInfo) (string, error) {
	if !info.Mode().IsRegular() {
		return "", untold("it is not a single file, which could be copied")
	}
	if anothers(info, who) {
		return "", untold("it belongs to another tenant's engines")
	}
	magic := make([]byte, 4)
	if _, err := in.ReadAt(magic, 0); err != nil || string(magic) != "GGUF" {
		return "", untold("it is not a GGUF file, so it is not copied")
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
		return "", fmt.Errorf("copy %s (%d MiB) for uid %d of tenant %s: %w; or make it readable for that uid (chmod o+r it, o+x every folder above it)", path, info.Size()>>20, who.UID, who.Tenant, err)
	}
	t.log.Info("copied weights that the tenant's engines could not read", "from", path, "to", target, "tenant", who.Tenant, "uid", who.UID)
	return target, nil
}

// openRealPath opens a path that holds no link anywhere, so that what was
// checked about it stays true. What is no file does not make it wait.
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
