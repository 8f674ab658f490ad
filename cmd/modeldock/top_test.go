package main

import (
	"encoding/json"
	"testing"

	"modeldock.io/internal/api/openapi"
)

// What cards hold and what is served is one picture, the largest first.
func TestWhoTakesTheCards(t *testing.T) {
	t.Parallel()
	measured, old, fresh, yes := int64(9000), 60.0, 1.0, true
	held := func(tenant, id string, mib int64) openapi.Allocation {
		return openapi.Allocation{Tenant: tenant, RequestId: id, Mib: mib}
	}
	u := useOf([]openapi.Node{
		{Node: "n1", Cards: []openapi.Card{
			{Index: 0, TotalMiB: 24576, ReservedMiB: 1000, AllocatedMiB: 20000, FreeMiB: 3576, Healthy: true, MeasuredMiB: &measured, MeasuredAgeSeconds: &fresh, Allocations: []openapi.Allocation{held("team-a", "big", 12000), held("", "", 8000)}},
			{Index: 1, TotalMiB: 24576, AllocatedMiB: 12000, FreeMiB: 12576, Simulated: true, Allocations: []openapi.Allocation{held("team-a", "big", 12000)}},
		}},
		{Node: "n2", Cards: []openapi.Card{
			{Index: 0, TotalMiB: 24576, AllocatedMiB: 500, FreeMiB: 9000, Healthy: true, MeasuredMiB: &measured, MeasuredAgeSeconds: &old, Allocations: []openapi.Allocation{held("team-a", "ending", 500)}},
		}},
	}, []openapi.ServedModel{{Owner: "team-a", Name: "chat", Versions: []openapi.ModelVersion{
		{Version: "1", RequestId: "cold", Replicas: 1, Queue: 3}, {Version: "2", RequestId: "big", Replicas: 2, ReadyReplicas: 1, InFlight: 4, Simulated: &yes},
	}}})
	want := cardUse{
		Count: 3, Healthy: 2, Simulated: 1, TotalMiB: 73728, ReservedMiB: 1000, AllocatedMiB: 32500, MeasuredMiB: 9000, MeasuredCards: 1,
		LargestFragmentMiB: 12576, LargestFragmentOn: "n1, card 1",
	}
	if u.Cards != want {
		t.Errorf("cards\n%+v, want\n%+v", u.Cards, want)
	}
	if line := u.Cards.String(); line != "3 cards, 2 healthy, 1 simulated: 32500 of 73728 MiB allocated (44.1 %), 1000 reserved, 9000 measured on 1; largest fragment 12576 MiB (n1, card 1)" {
		t.Errorf("it says %s", line)
	}
	models := []modelUse{
		{Tenant: "team-a", RequestID: "big", Model: "chat", Version: "2", Simulated: true, Cards: 2, MemoryMiB: 24000, ReadyReplicas: 1, Replicas: 2, InFlight: 4},
		{Tenant: "team-a", RequestID: "ending", Cards: 1, MemoryMiB: 500},
		{Tenant: "team-a", RequestID: "cold", Model: "chat", Version: "1", Replicas: 1, Queue: 3},
	}
	if len(u.Models) != len(models) {
		t.Fatalf("%d models: %+v", len(u.Models), u.Models)
	}
	for i, m := range models {
		if u.Models[i] != m {
			t.Errorf("%d:\n%+v, want\n%+v", i, u.Models[i], m)
		}
	}
	if empty := useOf(nil, nil); empty.Cards.String() != "no cards are known" {
		t.Errorf("without cards it says %s", empty.Cards)
	}
}

// Into a pipe it is shown once, with what the caller's own model takes.
func TestTopIsShownOnce(t *testing.T) {
	t.Parallel()
	a := tenant(t)
	a.run("submit", "--id", "heavy", "--memory", "700", "--wait").exits(exitOK)
	a.run("top").exits(exitOK, "MEMORY MiB", a.tenant+"/heavy", "700", "simulated", "largest fragment")
	a.run("top", "-o", "name").exits(exitOK, a.tenant+"/heavy")
	var u use
	if err := json.Unmarshal([]byte(a.run("top", "-o", "json").exits(exitOK).out), &u); err != nil || len(u.Models) != 1 || u.Models[0].MemoryMiB != 700 || u.Models[0].Cards != 1 {
		t.Errorf("json: %v, %+v", err, u)
	}
}
