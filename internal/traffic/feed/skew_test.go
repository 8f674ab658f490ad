package feed

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/traffic"
)

// Controllers and gateways of neighbouring versions talk to each other while
// an installation is upgraded. Their messages as they were sent by earlier
// versions are in testdata/recorded, numbered in the order of their change;
// whoever adds a field adds a recording, and none is ever edited.

func recorded(t *testing.T, name string) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "recorded", name+"-*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no message %s is recorded: %v", name, err)
	}
	all := map[string][]byte{}
	for _, f := range files {
		if all[filepath.Base(f)], err = os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// newer is the message as a later version might send it: with members in every
// object that nobody here knows.
func newer(t *testing.T, message []byte) []byte {
	t.Helper()
	var v any
	if err := json.Unmarshal(message, &v); err != nil {
		t.Fatal(err)
	}
	var add func(any)
	add = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, each := range v {
				add(each)
			}
		case map[string]any:
			for name, each := range v {
				if name != "Owned" { // its members are names, not fields
					add(each)
				}
			}
			v["Later"] = map[string]any{"Deep": []int{1, 2, 3}}
		}
	}
	add(v)
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A gateway decides by what an older controller says as that one meant it, and
// leaves out what it does not understand of a newer one.
func TestSnapshotsOfOtherVersions(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 2, 0, 0, 123456000, time.UTC)
	for name, message := range recorded(t, "snapshot") {
		for _, body := range [][]byte{message, newer(t, message)} {
			s, err := decode(body)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			key, admin := s.Keys["k1"], s.Keys["k2"]
			if key.Tenant != "team-a" || key.SecretHash != [32]byte{1, 2, 3} || !key.ExpiresAt.IsZero() || !admin.Admin || !admin.ExpiresAt.Equal(at.Add(time.Hour)) || len(s.Keys) != 2 {
				t.Errorf("%s: keys %+v", name, s.Keys)
			}
			_, granted := s.Grants[traffic.GrantKey{Owner: "team-a", Model: "m", Grantee: "team-b"}]
			_, owned := s.Owned["team-a"]["old"]
			if !granted || !owned || len(s.Grants) != 1 {
				t.Errorf("%s: grants %+v, owned %+v", name, s.Grants, s.Owned)
			}
			m := s.Models[0]
			if m.Owner != "team-a" || m.Name != "m" || m.Version != "v1" || m.RequestID != "r1" || m.ObjectUID != "u1" || m.Weight != 100 || m.WaitTimeout != 2*time.Minute || m.MaxWaiting != 1000 || !m.CreatedAt.Equal(at) || m.Pending || m.ReleaseAsked {
				t.Errorf("%s: %+v", name, m)
			}
			// What came later is absent, which must be harmless: nothing is
			// limited, nothing kept, nothing asleep.
			if name == "snapshot-1.json" && (s.Ledger != "" || len(s.Limits) != 0 || m.CacheTTL != 0 || m.Asleep) {
				t.Errorf("%s: %+v", name, s)
			}
			if name == "snapshot-3.json" && (s.Ledger != "incarnation1" || s.Limits["team-a"].PerKey.Concurrency != 2 || s.Limits["team-a"].Window != time.Second || m.CacheTTL != time.Minute || !m.Asleep) {
				t.Errorf("%s: %+v", name, s)
			}
		}
	}
}

// What is sent today has every field that an older gateway reads, by its name
// and in its type.
func TestNothingThatOlderVersionsReadIsGone(t *testing.T) {
	t.Parallel()
	for name, message := range recorded(t, "snapshot") {
		s, err := decode(message)
		if err != nil {
			t.Fatal(err)
		}
		now, _, err := encode(s)
		if err != nil {
			t.Fatal(err)
		}
		lacking(t, name, message, now)
	}
	for name, message := range recorded(t, "inferences") {
		var batch []traffic.Inference
		if err := json.Unmarshal(message, &batch); err != nil {
			t.Fatal(err)
		}
		now, err := json.Marshal(batch)
		if err != nil {
			t.Fatal(err)
		}
		lacking(t, name, message, now)
	}
}

func lacking(t *testing.T, name string, then, now []byte) {
	t.Helper()
	var a, b any
	if err := json.Unmarshal(then, &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(now, &b); err != nil {
		t.Fatal(err)
	}
	today := leaves(b, "")
	for path, value := range leaves(a, "") {
		if today[path] != value {
			t.Errorf("%s: %s was %s and is sent as %q today", name, path, value, today[path])
		}
	}
}

func leaves(v any, at string) map[string]string {
	out := map[string]string{}
	switch v := v.(type) {
	case []any:
		for i, each := range v {
			for path, value := range leaves(each, fmt.Sprint(at, "[", i, "]")) {
				out[path] = value
			}
		}
	case map[string]any:
		for name, each := range v {
			for path, value := range leaves(each, at+"."+name) {
				out[path] = value
			}
		}
	default:
		out[at] = fmt.Sprintf("%T %v", v, v)
	}
	return out
}

// A controller stores what an older gateway, or a newer one, has seen.
func TestEvidenceOfOtherVersions(t *testing.T) {
	t.Parallel()
	p := control(t)
	post := func(body []byte) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.http.URL+PathInferences, strings.NewReader(string(body)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp
	}
	for name, message := range recorded(t, "inferences") {
		for _, body := range [][]byte{message, newer(t, message)} {
			resp := post(body)
			p.mu.Lock()
			last := slices.Clone(p.stored[max(0, len(p.stored)-1):])
			p.mu.Unlock()
			if resp.StatusCode != http.StatusNoContent || len(last) != 1 {
				t.Errorf("%s: %s", name, resp.Status)
				continue
			}
			want := traffic.Inference{RequestID: "i1", EndpointUID: "p1", QueuedFor: 5 * time.Millisecond, Outcome: traffic.Completed, PromptTokens: 3, CompletionTokens: 40}
			got := last[0]
			if !reflect.DeepEqual(want, traffic.Inference{RequestID: got.RequestID, EndpointUID: got.EndpointUID, QueuedFor: got.QueuedFor, Outcome: got.Outcome, PromptTokens: got.PromptTokens, CompletionTokens: got.CompletionTokens}) || got.FirstContentAt.IsZero() {
				t.Errorf("%s: %+v", name, got)
			}
		}
	}
}

// A pass as earlier controllers signed it opens today's gateways.
func TestPassOfOtherVersions(t *testing.T) {
	t.Parallel()
	const signed = "mdt_k1.1796004060.sgsQmJJyby27M8rpr8fm6AV22mVMa-0QvIBMj8Ix7Oc"
	now := time.Unix(1796004000, 0)
	if got := Pass(token, "k1", now); got != signed {
		t.Fatalf("a pass is %q today, was %q", got, signed)
	}
	if id, err := CheckPass(token, signed, now.Add(time.Second)); err != nil || id != "k1" {
		t.Errorf("%q, %v", id, err)
	}
}

// A document that cannot be understood is told apart from one with more in it,
// and what was known before stays.
func TestAnotherFormatIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := decode([]byte(`{"Format":2,"Keys":[]}`)); err == nil || !strings.Contains(err.Error(), "bring gateways and controllers to one version") {
		t.Errorf("it says %v", err)
	}
}
