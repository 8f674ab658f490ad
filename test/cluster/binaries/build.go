package binaries

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"time"
)

// Builder builds recipes into a cache.
type Builder struct {
	Source string    // the folder that holds one folder per recipe
	Cache  string    // see CacheDir
	Log    io.Writer // says what is done and how long it took; written by several goroutines
	Now    func() time.Time

	say sync.Mutex
}

// Build makes what Find would not find. Two builds of the same recipe, in one
// process or in several, wait for each other; the second finds the first's work.
// Kubernetes, the longest, runs beside all others: the go command alone does
// not keep two cores busy while it links.
func (b *Builder) Build(ctx context.Context, recipes []Recipe) error {
	var long, short []Recipe
	for _, r := range recipes {
		if r.Name == "kubernetes" {
			long = append(long, r)
		} else {
			short = append(short, r)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- b.inTurn(ctx, long) }()
	err := b.inTurn(ctx, short)
	return errors.Join(err, <-ended)
}

func (b *Builder) inTurn(ctx context.Context, recipes []Recipe) error {
	var errs []error
	for _, r := range recipes {
		errs = append(errs, b.one(ctx, r))
	}
	return errors.Join(errs...)
}

func (b *Builder) one(ctx context.Context, r Recipe) error {
	if b.found(ctx, r) {
		return nil
	}
	unlock, err := lock(b.Cache, r.Name)
	if err != nil {
		return err
	}
	defer unlock()
	// Another run may have built it while this one waited for the lock.
	if b.found(ctx, r) {
		return nil
	}
	b.sayf("building %s %s", r.Name, r.Version)
	began := b.Now()
	if err := b.compile(ctx, r); err != nil {
		return fmt.Errorf("build %s %s: %w", r.Name, r.Version, err)
	}
	b.sayf("built %s %s in %s", r.Name, r.Version, b.Now().Sub(began).Round(time.Second))
	return nil
}

// found says whether nothing is left to build, and where the programs are.
func (b *Builder) found(ctx context.Context, r Recipe) bool {
	where := make(map[string]bool)
	for _, p := range r.Programs {
		found, err := r.find(ctx, b.Cache, p)
		if err != nil {
			return false
		}
		where[filepath.Dir(found)] = true
	}
	for dir := range where {
		b.sayf("%s %s is in %s", r.Name, r.Version, dir)
	}
	return true
}

// compile builds into a folder beside the final one and renames it there whole,
// so that an interrupted build leaves nothing that looks finished.
func (b *Builder) compile(ctx context.Context, r Recipe) error {
	if err := b.pinned(r); err != nil {
		return err
	}
	made, err := os.MkdirTemp(b.Cache, ".build-"+r.Name+"-")
	if err != nil {
		return fmt.Errorf("make a folder to build in: %w", err)
	}
	defer func() { _ = os.RemoveAll(made) }() // gone already after the rename
	args := []string{"build", "-ldflags", r.LDFlags, "-o", made + string(filepath.Separator)}
	for _, p := range r.Programs {
		args = append(args, p.Package)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(b.Source, r.Name)
	// One flag set everywhere: -trimpath, or another CGO_ENABLED, would share
	// no compiled package with the builds and tests that import Kubernetes.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build in %s: %w\n%s", cmd.Dir, err, out)
	}
	for _, p := range r.Programs {
		if built := executable(p.Package); built != p.Name {
			if err := os.Rename(filepath.Join(made, built), filepath.Join(made, p.Name)); err != nil {
				return fmt.Errorf("name %s: %w", p.Name, err)
			}
		}
	}
	if err := os.Chmod(made, 0o755); err != nil {
		return fmt.Errorf("open the built programs to others: %w", err)
	}
	// What is there lacks a program, else it would have been found.
	if err := os.RemoveAll(r.dir(b.Cache)); err != nil {
		return fmt.Errorf("remove an incomplete build: %w", err)
	}
	if err := os.Rename(made, r.dir(b.Cache)); err != nil {
		return fmt.Errorf("put the programs in place: %w", err)
	}
	return nil
}

// majorSuffix is the last element of a module path from version 2 on, which the
// go command leaves out of a program's name.
var majorSuffix = regexp.MustCompile(`^v[0-9]+$`)

// executable is the file name that go build gives a package's program.
func executable(pkg string) string {
	if base := path.Base(pkg); !majorSuffix.MatchString(base) {
		return base
	}
	return path.Base(path.Dir(pkg))
}

// pinned refuses to cache under one version what go.mod builds from another.
func (b *Builder) pinned(r Recipe) error {
	name := filepath.Join(b.Source, r.Name, "go.mod")
	content, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("read the recipe: %w", err)
	}
	require := regexp.MustCompile(`(?m)^(?:require|\t)\s*` + regexp.QuoteMeta(r.Module) + `\s+(\S+)`)
	if m := require.FindSubmatch(content); m == nil || string(m[1]) != r.Version {
		return fmt.Errorf("%s does not require %s %s, which the list of recipes names", name, r.Module, r.Version)
	}
	return nil
}

// lock holds an exclusive lock until the returned function is called.
func lock(cache, name string) (func(), error) {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, fmt.Errorf("make the cache: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(cache, ".lock-"+name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of %s: %w", name, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the build of %s: %w", name, err), f.Close())
	}
	return func() { _ = f.Close() }, nil // closing releases the lock
}

func (b *Builder) sayf(format string, args ...any) {
	b.say.Lock()
	defer b.say.Unlock()
	_, _ = fmt.Fprintf(b.Log, "== "+format+"\n", args...)
}
