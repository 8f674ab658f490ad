package cluster

import (
	"strings"
	"testing"
)

func TestWhatTheDistributionLacksIsNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := new(Cluster).findDistribution()
	if err == nil {
		t.Fatal("nothing is missing on an empty PATH")
	}
	for _, want := range []string{"runc is not on PATH; install the package runc", "ip is not on PATH; install the package iproute2"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
}
