package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modeldock.io/internal/budget/stamp"
	"modeldock.io/internal/delivery"
)

func TestStampsNeverFall(t *testing.T) {
	t.Parallel()
	dir := &dataDir{path: t.TempDir()}
	s, err := openStamps(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.of("a"); got != 0 {
		t.Errorf("a new stamp is %d", got)
	}
	for _, seq := range []int64{3, 9, 4} {
		if err := s.raise(t.Context(), "a", seq); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.raise(t.Context(), "b", 1); err != nil {
		t.Fatal(err)
	}
	again, err := openStamps(dir)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := again.of("a"), again.of("b"); a != 9 || b != 1 {
		t.Errorf("after a restart the stamps are %d and %d, want 9 and 1", a, b)
	}
	if others := again.others("a"); len(others) != 1 || others[0] != "b" {
		t.Errorf("other ledgers are %v, want b", others)
	}
	if info, err := os.Stat(dir.file(stamp.File)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v (%v), want 0600", info.Mode(), err)
	}
}

// A stamp that is as high already costs no write; one that cannot be written
// is an error, and is not remembered as if it had been.
func TestStampIsWrittenOnlyWhenItRises(t *testing.T) {
	t.Parallel()
	dir := &dataDir{path: filepath.Join(t.TempDir(), "data")}
	if err := os.Mkdir(dir.path, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := openStamps(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.raise(t.Context(), "a", 5); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir.path); err != nil {
		t.Fatal(err)
	}
	if err := s.raise(t.Context(), "a", 5); err != nil {
		t.Errorf("a stamp that is there was written again: %v", err)
	}
	if err := s.raise(t.Context(), "a", 6); err == nil || s.of("a") != 5 {
		t.Errorf("a stamp that could not be written: %v, remembered as %d", err, s.of("a"))
	}
}

func TestUnreadableStampIsNotIgnored(t *testing.T) {
	t.Parallel()
	for content, says := range map[string]string{"not JSON": "move the file away", `{"version":2}`: "version 2"} {
		dir := &dataDir{path: t.TempDir()}
		if err := os.WriteFile(dir.file(stamp.File), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := openStamps(dir); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want an error that says %q", content, err, says)
		}
	}
}

// A number on an object that no ledger can have given out would leave the
// ledger none to go on with.
func TestStampsThatNobodyGaveOut(t *testing.T) {
	t.Parallel()
	objects := []delivery.Status{{Ledger: "ours", JournalSeq: 7}, {Ledger: "ours", JournalSeq: 1001}, {Ledger: "another", JournalSeq: 9}}
	if got := highestStamp(objects, "ours", 1000); got != 7 {
		t.Errorf("the highest stamp is %d, want 7", got)
	}
	if got := highestStamp(objects, "ours", 1001); got != 1001 {
		t.Errorf("the highest stamp is %d, want 1001", got)
	}
}
