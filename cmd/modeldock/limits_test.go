package main

import "testing"

func TestLimitsAreChangedOneByOne(t *testing.T) {
	t.Parallel()
	a, boss := tenant(t), admin(t)
	boss.run("limits", "set", a.tenant, "--requests-per-minute", "60", "--key-concurrency", "2", "--max-priority", "0", "--max-class", "batch").exits(exitOK, "60", "batch")
	boss.run("limits", "set", a.tenant, "--tokens-per-day", "7777").exits(exitOK, "60", "7777", "- - 2 -")
	a.run("submit", "--id", "high", "--priority", "1").exits(exitUnauthorised, "maxPriority")
	boss.run("limits", "set", a.tenant, "--max-priority", "-1", "--requests-per-minute", "0").exits(exitOK, "7777", "batch")
	a.run("submit", "--id", "high", "--priority", "1").exits(exitOK, "high")
	if d := a.run("limits", "get", a.tenant, "-o", "json").exits(exitOK, `"tokensPerDay": 7777`, `"concurrency": 2`); len(d.out) == 0 {
		t.Error("a tenant does not see its own limits")
	}
	boss.run("limits", "set", a.tenant, "--clear", "--concurrency", "9").exits(exitOK, "9")
	boss.run("limits", "get", a.tenant, "-o", "json").exits(exitOK, `"limits": {
        "concurrency": 9
      }`)
}
