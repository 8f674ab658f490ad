//go:build redis

package redislink

import (
	"strings"
	"testing"

	"modeldock.io/test/redisserver"
)

func TestInspect(t *testing.T) {
	t.Parallel()
	s, err := redisserver.Start(t.Context(), "--requirepass", "secret-of-the-test")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Stop() }()
	opts, err := Parse("redis://:secret-of-the-test@" + s.Addr + "/0")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Inspect(t.Context(), opts)
	if err != nil || !strings.Contains(got.Version, ".") || got.Policy == "" {
		t.Errorf("%+v, %v", got, err)
	}
	wrong, err := Parse("redis://:another@" + s.Addr + "/0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Inspect(t.Context(), wrong); err == nil || strings.Contains(err.Error(), "another") {
		t.Errorf("with a wrong password: %v", err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := Inspect(t.Context(), opts); err == nil || !strings.Contains(err.Error(), s.Addr) {
		t.Errorf("of nobody: %v", err)
	}
}
