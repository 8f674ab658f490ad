package main

import (
	"os"
	"path/filepath"
	"testing"
)

// A warm pool is set by flags or a file, shown as a table or a document, and
// taken back; its pool is one of its own, because others share the default.
func TestWarmPoolIsSetAndShown(t *testing.T) {
	t.Parallel()
	a, boss := tenant(t), admin(t)
	boss.run("pool", "set", "spare-"+a.tenant, "1").exits(exitOK)
	pool := "spare-" + a.tenant
	boss.run("warmpool", "set", pool, "--gpu-hours", "2.5", "--hot", "llm=2", "--hot", "vision=1").exits(exitOK, pool, "llm", "0 of 2", "0.00 of 2.5 GPU-hours", "0 models of class vision")
	boss.run("warmpool", "get", pool, "-o", "json").exits(exitOK, `"spentToday": 0`, `"hot": 2`)
	file := filepath.Join(t.TempDir(), "warm.yaml")
	text := "gpuHoursPerDay: 8\ntimeZone: Europe/Berlin\nclasses:\n- class: recommender\n  schedules: [{days: [Mon, Tue], from: '07:00', to: '24:00', hot: 1, buffers: 2}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	boss.run("warmpool", "set", pool, "--file", file).exits(exitOK, "recommender", "of 8 GPU-hours")
	boss.run("warmpool", "get", "-o", "name").exits(exitOK, pool)
	boss.run("warmpool", "set", pool, "--gpu-hours", "1", "--hot", "llm").exits(exitUsage, "llm=2")
	boss.run("warmpool", "set", pool, "--gpu-hours", "1", "--hot", "huge=1").exits(exitUsage, "classes[0].class")
	boss.run("warmpool", "set", "nowhere-"+a.tenant, "--gpu-hours", "1").exits(exitNotFound)
	boss.run("warmpool", "set", pool).exits(exitUsage)
	a.run("warmpool", "set", pool, "--none").exits(exitUnauthorised)
	a.run("warmpool", "get").exits(exitUnauthorised, "admin or viewer")
	boss.run("warmpool", "set", pool, "--none").exits(exitOK)
	boss.run("warmpool", "get", pool).exits(exitNotFound, "keeps nothing ready")
}
