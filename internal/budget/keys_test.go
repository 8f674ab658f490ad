package budget_test

import (
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/budget"
)

func TestMintedKeysParseAndMatch(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	seen := map[string]bool{}
	for range 100 {
		text, k := budget.MintKey(budget.RoleTenant, "team-a", now, time.Hour)
		id, secret, ok := budget.ParseKey(text)
		if !ok || id != k.ID || !k.Matches(secret) {
			t.Fatalf("the key %s does not parse into what it was minted as", k.ID)
		}
		// 26 characters of base32 are 130 bits.
		plain := text[strings.LastIndex(text, "_")+1:]
		if len(plain) < 26 || seen[plain] || seen[id] {
			t.Fatalf("secret of %d characters, or one of them twice", len(plain))
		}
		seen[plain], seen[id] = true, true
		_, other := budget.MintKey(budget.RoleTenant, "team-a", now, 0)
		if other.Matches(secret) {
			t.Fatal("another key matches")
		}
	}
}

func TestNoKeyAtAll(t *testing.T) {
	t.Parallel()
	text, _ := budget.MintKey(budget.RoleAdmin, "", time.Now(), 0)
	for _, wrong := range []string{
		"", "mdk_", "mdk__", "mdk_a_short", text + " ", " " + text, text + "\n", "sk-" + text, strings.ToUpper(text[:3]) + text[3:],
		strings.Replace(text, "_", "-", 1), "mdk_a b_" + strings.Repeat("x", 40), "mdk_a_" + strings.Repeat("x", 4000),
	} {
		if _, _, ok := budget.ParseKey(wrong); ok {
			t.Fatalf("%q parses as a key", wrong)
		}
	}
}

func TestALiveKey(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	_, forever := budget.MintKey(budget.RoleAdmin, "", now, 0)
	_, hour := budget.MintKey(budget.RoleAdmin, "", now, time.Hour)
	revoked := forever
	revoked.RevokedAt = now
	for _, c := range []struct {
		key  budget.APIKey
		at   time.Time
		live bool
	}{
		{forever, now.AddDate(100, 0, 0), true}, {hour, now.Add(time.Hour - 1), true}, {hour, now.Add(time.Hour), false}, {revoked, now, false},
	} {
		if c.key.Live(c.at) != c.live {
			t.Fatalf("live at %s is %v", c.at, !c.live)
		}
	}
}
