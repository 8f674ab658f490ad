package api

import (
	"strings"
	"testing"

	"modeldock.io/internal/api/openapi"
)

// C054 through the API: two nodes, of which only one has a large enough
// fragment, though the other has more memory in total.
func TestFitNamesTheCardOrTheFragment(t *testing.T) {
	t.Parallel()
	b := setup(t)
	held := func(uid string, mib int64) []openapi.Allocation {
		return []openapi.Allocation{{Uid: uid, Tenant: "team-b", Mib: mib}}
	}
	b.fleet.nodes = func() ([]openapi.Node, error) {
		return []openapi.Node{
			{Node: "gpu-1", Cards: []openapi.Card{
				{Uuid: "a", TotalMiB: 16000, Healthy: true, Allocations: held("p", 10000)},
				{Uuid: "b", Index: 1, TotalMiB: 16000, UnaccountedMiB: 1000, Healthy: true, Allocations: held("q", 9000)},
			}},
			{Node: "gpu-2", Simulated: true, Cards: []openapi.Card{{Uuid: "c", Index: 3, TotalMiB: 9000, ReservedMiB: 270, Healthy: true, Allocations: held("r", 500)}}},
		}, nil
	}
	got := read[openapi.Fit](b.ask(b.a, "POST", "/nodes/fit", `{"gpuMemoryMiB":8000}`), 200)
	if !got.Fits || *got.Node != "gpu-2" || len(got.Nodes) != 2 || got.Nodes[0].Fits || !got.Nodes[1].Fits || !got.Nodes[1].Simulated {
		t.Fatalf("%+v", got)
	}
	if card := got.Nodes[1].Cards[0]; card != (openapi.FitCard{Uuid: "c", Index: 3, FreeMiB: 8230}) {
		t.Errorf("card %+v", card)
	}
	if want := "largest fragment 6000 MiB < 8000 MiB on node gpu-1 (2 cards, 11.7 GiB free in total)"; *got.Nodes[0].Reason != want {
		t.Errorf("reason %q, want %q", *got.Nodes[0].Reason, want)
	}
	got = read[openapi.Fit](b.ask(b.a, "POST", "/nodes/fit", `{"gpuMemoryMiB":6000,"gpus":3}`), 200)
	if want := "2 cards with a fragment of 6000 MiB; 3 are needed on node gpu-1"; got.Fits || got.Node != nil || !strings.HasPrefix(*got.Reason, want) {
		t.Errorf("%+v, reason %q", got, *got.Reason)
	}
	got = read[openapi.Fit](b.ask(b.viewer, "POST", "/nodes/fit", `{"gpuMemoryMiB":6000,"gpus":2}`), 200)
	if !got.Fits || *got.Node != "gpu-1" || len(got.Nodes[0].Cards) != 2 {
		t.Errorf("%+v", got)
	}
}

func TestFitRefusesNonsense(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, in := range []string{
		`{}`, `{"gpuMemoryMiB":0}`, `{"gpuMemoryMiB":-5}`, `{"gpuMemoryMiB":1.5}`, `{"gpuMemoryMiB":"8Gi"}`, `{"gpuMemoryMiB":9223372036854775807}`,
		`{"gpuMemoryMiB":9223372036854775808}`, `{"gpuMemoryMiB":1,"gpus":0}`, `{"gpuMemoryMiB":1,"gpus":65}`, `{"gpuMemoryMiB":1,"cards":1}`,
	} {
		b.ask(b.a, "POST", "/nodes/fit", in).fails(400, "invalid_request")
	}
	got := read[openapi.Fit](b.ask(b.a, "POST", "/nodes/fit", `{"gpuMemoryMiB":1}`), 200)
	if got.Fits || !strings.HasPrefix(*got.Reason, "there is no card") {
		t.Errorf("%+v", got)
	}
}
