package local

import (
	"os"
	"strings"
	"testing"

	"modeldock.io/test/executable"

	"modeldock.io/internal/delivery"
	"modeldock.io/internal/modelspec"
)

// Of files that only root can see, a tenant learns nothing by naming them as
// its engine's program.
func TestProgramsTellNothingOfFiles(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root sees more than an engine's user")
	}
	b := setup(t)
	who := user{Tenant: "team-a", UID: 200000}
	hidden, public := t.TempDir()+"/hidden", publicDir(t)
	write(t, hidden+"/secret", "words", 0o600)
	for _, path := range []string{hidden + "/program", public + "/mine"} {
		if err := executable.Write(path, []byte("#!/bin/sh\nexit 0\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(hidden+"/program", public+"/link"); err != nil {
		t.Fatal(err)
	}
	words := map[string]string{}
	for _, path := range []string{hidden, hidden + "/secret", hidden + "/program", hidden + "/nothing", hidden + "/secret/below", public + "/link", public, "/nowhere", "/dev/null"} {
		got, err := b.target.program(who, modelspec.EngineCustom, path)
		if err == nil {
			t.Errorf("%s became %s", path, got)
			continue
		}
		words[strings.ReplaceAll(err.Error(), path+",", "X,")] = path
	}
	if len(words) != 1 {
		t.Errorf("different words: %q", words)
	}
	for _, path := range []string{public + "/mine", "/bin/sh", "sh"} {
		if _, err := b.target.program(who, modelspec.EngineCustom, path); err != nil {
			t.Error(err)
		}
	}
	// What a tenant reads of a start is the same.
	told := map[string]string{}
	for id, path := range map[string]string{"one": hidden + "/program", "two": hidden + "/nothing"} {
		d := desired("team-a", id, func(m *modelspec.Model) {
			m.Engine, m.Args, m.Command = modelspec.EngineCustom, nil, []string{path}
		})
		b.apply(d)
		st := b.until(d, "failed", func(s delivery.Status) bool { return s.LastFailure != nil })
		told[strings.ReplaceAll(st.LastFailure.Message, path+",", "X,")] = path
	}
	if len(told) != 1 {
		t.Errorf("different words: %q", told)
	}
}
