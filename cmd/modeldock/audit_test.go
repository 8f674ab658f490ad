package main

import (
	"testing"
	"time"
)

func TestAudit(t *testing.T) {
	t.Parallel()
	whose, boss := tenant(t), admin(t)
	ask := func(args ...string) done {
		return boss.run(append([]string{"audit", "--tenant", whose.tenant, "--action", "PUT /tenants/"}, args...)...)
	}
	ask().exits(exitOK, "ACTION", "PUT /tenants/"+whose.tenant+"/quota", "admin ", "127.0.0.1")
	ask("-o", "json", "--limit", "1").exits(exitOK, `"action": "PUT /tenants/`+whose.tenant, `"tenant": "`+whose.tenant+`"`)
	ask("-o", "yaml", "--limit", "0", "--since", "1h").exits(exitOK, "action: PUT /tenants/"+whose.tenant)
	if none := ask("-o", "name", "--until", "24h").exits(exitOK); none.out != "" {
		t.Errorf("something was done a day ago:\n%s", none.out)
	}
	whose.run("audit").exits(exitUnauthorised, "admin")
	for _, args := range [][]string{{"--limit", "-1"}, {"--since", "yesterday"}, {"--until", "-3h"}, {"surplus"}} {
		ask(args...).exits(exitUsage)
	}
}

func TestMoments(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{"2026-01-01T02:00:00+02:00": "2026-01-01T00:00:00Z", "90m": "2026-01-31T06:30:00Z"} {
		if got, err := moment("--since", text, now); err != nil || *got != want {
			t.Errorf("%s is %v, %v, want %s", text, got, err, want)
		}
	}
}
