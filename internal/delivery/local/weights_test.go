package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"modeldock.io/internal/delivery"
	"modeldock.io/internal/delivery/local/supervise"
	"modeldock.io/internal/modelspec"
)

func withSource(path string) modelspec.Model {
	m := modelspec.Default("m")
	m.Engine, m.Source = modelspec.EngineLlamaCpp, "file://"+path
	return m
}

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func TestWeightsAreHandedOver(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root hands weights to other users")
	}
	b := setup(t)
	who := user{Tenant: "team-a", UID: 200000}
	private := t.TempDir() + "/private/tiny.gguf"
	write(t, private, "GGUF and more", 0o600)
	got, err := b.target.weights(t.Context(), who, withSource(private))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(got)
	if err != nil || string(raw) != "GGUF and more" || !readableInGroup(t, got) {
		t.Fatalf("%s holds %q (%v)", got, raw, err)
	}
	if again, err := b.target.weights(t.Context(), who, withSource(private)); err != nil || again != got {
		t.Fatalf("copied again to %s (%v)", again, err)
	}
	d := desired("team-a", "demo")
	obj := b.apply(d)
	b.untilReady(d)
	if _, err := b.target.users.For("team-a"); err != nil {
		t.Fatal(err)
	}
	b.delete(d, obj)
	b.untilGone(d)
	eventually(t, func() bool { _, err := os.Stat(got); return os.IsNotExist(err) }, func() string {
		return "the copy outlives the tenant's last model"
	})
	public := publicDir(t) + "/tiny.gguf"
	write(t, public, "GGUF", 0o644)
	if got, err := b.target.weights(t.Context(), who, withSource(public)); err != nil || got != public {
		t.Fatalf("a readable file became %s (%v)", got, err)
	}
}

func readableInGroup(t *testing.T, path string) bool {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm() == 0o440
}

func TestWeightsThatAreRefused(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root hands weights to other users")
	}
	b := setup(t)
	who := user{Tenant: "team-a", UID: 200000}
	dir := t.TempDir()
	write(t, dir+"/secret", "root:x:0", 0o600)
	link := publicDir(t) + "/link.gguf"
	if err := os.Symlink(b.cfg.DataDir+"/instance", link); err != nil {
		t.Fatal(err)
	}
	fifo := publicDir(t) + "/fifo"
	if err := syscall.Mkfifo(fifo, 0o666); err != nil {
		t.Fatal(err)
	}
	// Of what only root can see, a tenant learns nothing: not even that it is there.
	const hidden = "is not there, or cannot be read by uid 200000 of tenant team-a"
	for path, want := range map[string]string{
		link:                        hidden,
		b.cfg.DataDir + "/instance": "is in ModelDock's data directory",
		b.cfg.DataDir + "/nothing":  "is in ModelDock's data directory",
		dir + "/../" + filepath.Base(dir) + "/secret": hidden,
		dir:              hidden,
		dir + "/missing": hidden,
		fifo:             hidden,
		"/dev/zero":      hidden,
	} {
		got, err := b.target.weights(t.Context(), who, withSource(path))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s became %q (%v), want %q", path, got, err, want)
			continue
		}
		if words := strings.ReplaceAll(err.Error(), filepath.Clean(path), "X"); want == hidden && words != strings.ReplaceAll(mustFail(t, b, who, "/missing"), "/missing", "X") {
			t.Errorf("%s is told of in other words: %s", path, words)
		}
	}
}

// What engines keep in their directories, and what was copied for one tenant,
// is no other tenant's weights, on whatever way it is named.
func TestEnginesFilesAreNoWeights(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root hands weights to other users")
	}
	b := setup(t)
	one, two := user{Tenant: "team-a", UID: 200000}, user{Tenant: "team-b", UID: 200001}
	work, err := b.target.scratch.Work(one, "object")
	if err != nil {
		t.Fatal(err)
	}
	own := work + "/model.gguf"
	write(t, own, "GGUF of team-a", 0o600)
	elsewhere := newScratch(b.cfg.TempDir, "another")
	other, err := elsewhere.Work(one, "object")
	if err != nil {
		t.Fatal(err)
	}
	write(t, other+"/model.gguf", "GGUF of team-a", 0o600)
	t.Cleanup(func() { _ = elsewhere.Remove("object"); elsewhere.Prune() })
	private := t.TempDir() + "/private.gguf"
	write(t, private, "GGUF for team-a", 0o600)
	handed, err := b.target.weights(t.Context(), one, withSource(private))
	if err != nil {
		t.Fatal(err)
	}
	public := publicDir(t)
	loose, hard, link, dir := public+"/loose.gguf", public+"/hard.gguf", public+"/link.gguf", public+"/dir"
	write(t, loose, "GGUF of team-a", 0o600)
	if err := errors.Join(os.Lchown(own, one.UID, one.UID), os.Lchown(loose, one.UID, one.UID), os.Link(handed, hard), os.Symlink(own, link), os.Symlink(work, dir)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{own, other + "/model.gguf", handed, loose, hard, link, dir + "/model.gguf", work + "/tmp/../model.gguf"} {
		for _, who := range []user{one, two} {
			if who == one && (path == loose || path == hard) {
				continue // it can read them anyway
			}
			if got, err := b.target.weights(t.Context(), who, withSource(path)); err == nil {
				t.Errorf("%s became %s for %s", path, got, who.Tenant)
			}
		}
	}
}

func mustFail(t *testing.T, b *bench, who user, path string) string {
	t.Helper()
	_, err := b.target.weights(t.Context(), who, withSource(path))
	if err == nil {
		t.Fatalf("%s can be read", path)
	}
	return err.Error()
}

// What is neither a file nor a directory is not waited for, whoever runs the
// engine.
func TestPipesAndDevicesAreNoWeights(t *testing.T) {
	t.Parallel()
	b := setup(t)
	fifo := t.TempDir() + "/fifo"
	if err := syscall.Mkfifo(fifo, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, "/dev/tty", "/dev/zero"} {
		if got, err := b.target.weights(t.Context(), user{Tenant: "team-a"}, withSource(path)); err == nil {
			t.Errorf("%s became %q", path, got)
		}
	}
	d := desired("team-a", "piped", func(m *modelspec.Model) { m.Source = "file://" + fifo })
	obj := b.apply(d)
	st := b.until(d, "failed", func(s delivery.Status) bool { return s.LastFailure != nil })
	if st.Reason != delivery.ModelLoadFailed || !strings.Contains(st.LastFailure.Message, "file://"+fifo) {
		t.Errorf("%+v", st)
	}
	b.delete(d, obj)
	b.untilGone(d)
}

// A file system that does not answer keeps neither a release nor a stop
// waiting.
func TestStopWhileWeightsAreLookedAt(t *testing.T) {
	t.Parallel()
	r := &run{stop: make(chan struct{}), urgent: make(chan struct{})}
	ctx, cancel := r.untilStop(t.Context())
	defer cancel()
	hangs := make(chan struct{})
	defer close(hangs)
	r.requestStop()
	if _, err := untilEnd(ctx, func() (string, error) { <-hangs; return "", nil }); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// What a stop could not end is named as what it is.
func TestLeftOverIsNamed(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]*run{
		"processes of 1 replicas do not end even after SIGKILL":  {proc: &supervise.Process{}},
		"1 replicas are still being prepared, without a process": {},
	} {
		target := &Target{objects: map[string]*object{"m": {slots: map[int]*slot{0: {run: r}, 1: {}}}}}
		if err := target.leftOver(); !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Somebody else's directory in our place is not used.
func TestScratchDoesNotTrustWhatIsThere(t *testing.T) {
	t.Parallel()
	temp := publicDir(t)
	s := newScratch(temp, "id")
	if err := os.Symlink("/etc", s.root); err != nil {
		t.Fatal(err)
	}
	if dir, err := s.Work(user{}, "object"); err == nil {
		t.Fatalf("a link was followed: %s", dir)
	}
	if err := os.Remove(s.root); err != nil {
		t.Fatal(err)
	}
	dir, err := s.Work(user{}, "object")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{s.root: 0o711, filepath.Dir(dir): 0o710, dir: 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v (%v)", path, info.Mode(), want, err)
		}
	}
	s.Prune() // what holds something stays
	if err := s.Remove("object"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Fatalf("%s is still there (%v)", dir, err)
	}
	s.Prune()
	if _, err := os.Stat(s.root); !os.IsNotExist(err) {
		t.Fatalf("the empty %s is still there (%v)", s.root, err)
	}
}
