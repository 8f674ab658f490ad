package dra

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	cdi "tags.cncf.io/container-device-interface/specs-go"

	"modeldock.io/internal/device"
	"modeldock.io/internal/placement"
)

// node is one node's folders, over restarts of its driver.
type node struct{ kubelet, cdi string }

func newNode(t *testing.T) node {
	t.Helper()
	return node{kubelet: t.TempDir(), cdi: t.TempDir()}
}

func (n node) start(t *testing.T, change func(*Config), objects ...runtime.Object) Plugin {
	t.Helper()
	cfg := Config{
		Node: "n", Client: fake.NewClientset(objects...), KubeletDir: n.kubelet, CDIDir: n.cdi, Reserve: placement.DefaultReserve(),
		Clock: time.Now, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	}
	if change != nil {
		change(&cfg)
	}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p.Set(cards())
	return p
}

func cards() []device.Card {
	return []device.Card{
		{UUID: "GPU-A", Index: 0, Model: "A100", Total: 24576, Healthy: true},
		{UUID: "SIM-B", Index: 1, Model: "sim", Total: 10240, Healthy: true, Simulated: true},
	}
}

func claim(uid string, results ...resourceapi.DeviceRequestAllocationResult) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim-" + uid, UID: types.UID(uid)}}
	if len(results) > 0 {
		c.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: results}}
	}
	return c
}

func part(device string, mib int64) resourceapi.DeviceRequestAllocationResult {
	return resourceapi.DeviceRequestAllocationResult{
		Request: "gpu", Driver: Driver, Pool: "n", Device: device, ShareID: new(types.UID("share")),
		ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{memory: *resource.NewQuantity(mib*mebibyte, resource.BinarySI)},
	}
}

func (p Plugin) ask(t *testing.T, c *resourceapi.ResourceClaim) ([]kubeletplugin.Device, error) {
	t.Helper()
	out, err := p.PrepareResourceClaims(t.Context(), []*resourceapi.ResourceClaim{c})
	if err != nil || len(out) != 1 {
		t.Fatalf("%d answers (%v)", len(out), err)
	}
	return out[c.UID].Devices, out[c.UID].Err
}

func (p Plugin) undo(t *testing.T, uid string) {
	t.Helper()
	out, err := p.UnprepareResourceClaims(t.Context(), []kubeletplugin.NamespacedObject{{UID: types.UID(uid)}})
	if err != nil || out[types.UID(uid)] != nil {
		t.Fatalf("%v (%v)", out, err)
	}
}

// env is what the container runtime would set for a claim.
func (n node) env(t *testing.T, uid string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(n.cdi, cdiPrefix+uid+".json"))
	if os.IsNotExist(err) {
		return nil
	}
	var spec cdi.Spec
	if err == nil {
		err = json.Unmarshal(text, &spec)
	}
	if err != nil || len(spec.Devices) != 1 || spec.Kind != cdiKind || spec.Devices[0].Name != uid {
		t.Fatalf("%s (%v)", text, err)
	}
	return spec.Devices[0].ContainerEdits.Env
}

func TestAClaimGetsTheCardThatWasDecided(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	p := n.start(t, nil)
	for range 2 { // the kubelet may ask again
		devices, err := p.ask(t, claim("1", part("gpu-a", 10000)))
		if err != nil || len(devices) != 1 {
			t.Fatalf("%+v (%v)", devices, err)
		}
		d := devices[0]
		if d.PoolName != "n" || d.DeviceName != "gpu-a" || !slices.Equal(d.Requests, []string{"gpu"}) || !slices.Equal(d.CDIDeviceIDs, []string{"modeldock.io/card=1"}) || *d.ShareID != "share" {
			t.Errorf("%+v", d)
		}
	}
	if got := n.env(t, "1"); !slices.Equal(got, []string{"MODELDOCK_CARD=GPU-A", "NVIDIA_VISIBLE_DEVICES=GPU-A"}) {
		t.Errorf("the container sees %v", got)
	}
	for range 2 {
		p.undo(t, "1")
	}
	if got := n.env(t, "1"); got != nil || len(p.kept.claims) != 0 {
		t.Errorf("afterwards there is %v, and %v is prepared", got, p.kept.claims)
	}
}

func TestAClaimOfTwoCardsSeesBoth(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	p := n.start(t, func(c *Config) { c.NVIDIAKind = "nvidia.com/gpu" })
	devices, err := p.ask(t, claim("1", part("gpu-a", 5000), part("sim-b", 5000)))
	if err != nil || len(devices) != 2 {
		t.Fatalf("%+v (%v)", devices, err)
	}
	// NVIDIA's own description injects the real one; nobody knows the other.
	if ids := slices.Concat(devices[0].CDIDeviceIDs, devices[1].CDIDeviceIDs); !slices.Equal(ids, []string{"modeldock.io/card=1", "nvidia.com/gpu=GPU-A"}) {
		t.Errorf("injected %v", ids)
	}
	if got := n.env(t, "1"); !slices.Equal(got, []string{"MODELDOCK_CARD=GPU-A,SIM-B"}) {
		t.Errorf("the container sees %v", got)
	}
}

func TestWhatCannotBeGivenIsRefused(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	p := n.start(t, nil)
	if _, err := p.ask(t, claim("first", part("sim-b", 6000))); err != nil {
		t.Fatal(err)
	}
	elsewhere, twice, foreign := part("gpu-a", 1), part("gpu-a", 1), part("gpu-a", 1)
	elsewhere.Pool, twice.Request, foreign.Driver = "other", "gpu2", "gpu.example.com"
	for why, c := range map[string]*resourceapi.ResourceClaim{
		"not allocated":       claim("1"),
		"of other":            claim("2", elsewhere),
		"asks twice":          claim("3", part("gpu-a", 1), twice),
		"no device of":        claim("4", foreign),
		"does not have":       claim("5", part("gpu-gone", 1)),
		"other claims hold 6": claim("6", part("sim-b", 4000)),
	} {
		if devices, err := p.ask(t, c); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %+v (%v)", why, devices, err)
		}
		if got := n.env(t, string(c.UID)); got != nil {
			t.Errorf("%s: refused, and yet there is %v", why, got)
		}
	}
	p.undo(t, "first")
	if _, err := p.ask(t, claim("6", part("sim-b", 4000))); err != nil {
		t.Errorf("with the card free: %v", err)
	}
}

func TestPreparedClaimsSurviveARestart(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	p := n.start(t, nil)
	for _, uid := range []string{"1", "2"} {
		if _, err := p.ask(t, claim(uid, part("gpu-a", 10000))); err != nil {
			t.Fatal(err)
		}
	}
	// The folder of the runtime is lost, as at a reboot, and has a stray file.
	for _, uid := range []string{"1", "2"} {
		if err := os.Remove(filepath.Join(n.cdi, cdiPrefix+uid+".json")); err != nil {
			t.Fatal(err)
		}
	}
	for _, stray := range []string{cdiPrefix + "stray.json", "nvidia.yaml"} {
		if err := os.WriteFile(filepath.Join(n.cdi, stray), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	gone := claim("other-uid")
	gone.Name = "claim-2" // there is one of that name, and it is another one
	p = n.start(t, nil, claim("1"), gone)
	if got := n.env(t, "1"); len(got) != 2 {
		t.Errorf("claim 1 sees %v", got)
	}
	if _, err := os.Stat(filepath.Join(n.cdi, cdiPrefix+"stray.json")); !os.IsNotExist(err) {
		t.Errorf("the stray file: %v", err)
	}
	if _, err := os.Stat(filepath.Join(n.cdi, "nvidia.yaml")); err != nil {
		t.Errorf("a file of others: %v", err)
	}
	// It still counts what was given, until the claim is known to be gone.
	if _, err := p.ask(t, claim("3", part("gpu-a", 10000))); err == nil {
		t.Error("30000 MiB of 24576 were given")
	}
	if err := p.prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, there := p.kept.claims["1"]; !there || len(p.kept.claims) != 1 || n.env(t, "2") != nil {
		t.Errorf("prepared are %v", p.kept.claims)
	}
	if _, err := p.ask(t, claim("3", part("gpu-a", 10000))); err != nil {
		t.Errorf("after claim 2 is gone: %v", err)
	}
	// The Pod of a card that is gone starts its container again.
	p.Set(nil)
	if _, err := p.ask(t, claim("1", part("gpu-a", 10000))); err != nil {
		t.Errorf("a claim that was prepared before: %v", err)
	}
}

func TestCheckpointsOfOtherVersions(t *testing.T) {
	t.Parallel()
	for text, why := range map[string]string{`{"version":2}`: "version 2", `{`: "move the file away", `{"version":1,"claims":7}`: "claims"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, checkpointFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if c, err := openCheckpoint(dir); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %+v (%v)", text, c, err)
		}
	}
}

func TestOffer(t *testing.T) {
	t.Parallel()
	list := cards()
	list[0].Healthy, list[0].Reason = false, "hot"
	pool := offer("n", list, placement.DefaultReserve()).Pools["n"]
	if len(pool.Slices) != 1 || len(pool.Slices[0].Devices) != 2 {
		t.Fatalf("%+v", pool)
	}
	small, large := pool.Slices[0].Devices[0], pool.Slices[0].Devices[1]
	if small.Name != "sim-b" || large.Name != "gpu-a" || !*small.AllowMultipleAllocations {
		t.Errorf("in the order %s, %s", small.Name, large.Name)
	}
	if len(small.Taints) != 0 || len(large.Taints) != 1 || large.Taints[0].Effect != resourceapi.DeviceTaintEffectNoSchedule {
		t.Errorf("taints %v and %v", small.Taints, large.Taints)
	}
	value := small.Capacity[memory].Value
	if got, want := value.Value(), (10240-placement.DefaultReserve().Of(10240))*int64(mebibyte); got != want {
		t.Errorf("memory %d, want %d", got, want)
	}
	if !*small.Attributes["simulated"].BoolValue || *large.Attributes["uuid"].StringValue != "GPU-A" || *small.Attributes["index"].IntValue != 1 {
		t.Errorf("attributes %+v and %+v", small.Attributes, large.Attributes)
	}
	many, err := device.ParseCards("n", "130x1024")
	if err != nil {
		t.Fatal(err)
	}
	if got := offer("n", many, placement.DefaultReserve()).Pools["n"].Slices; len(got) != 3 || len(got[2].Devices) != 2 {
		t.Errorf("130 cards are in %d slices", len(got))
	}
	if got := offer("n", nil, placement.DefaultReserve()).Pools["n"].Slices; len(got) != 1 || len(got[0].Devices) != 0 {
		t.Errorf("no card is %+v", got)
	}
}

func TestHealthIsTold(t *testing.T) {
	t.Parallel()
	p := newNode(t).start(t, nil)
	reports, ended := make(chan kubeletplugin.DeviceHealthReport), make(chan error, 1)
	go func() { ended <- p.WatchHealthStatus(t.Context(), reports) }()
	if r := <-reports; len(r.Devices) != 2 || r.Devices[0].Health != kubeletplugin.HealthStatusHealthy {
		t.Fatalf("%+v", r)
	}
	sick := cards()
	sick[0].Healthy, sick[0].Reason = false, "hot"
	p.Set(sick)
	if r := <-reports; r.Devices[0].Health != kubeletplugin.HealthStatusUnhealthy || r.Devices[0].Message != "hot" || r.Devices[0].DeviceName != "gpu-a" {
		t.Fatalf("%+v", r)
	}
}
