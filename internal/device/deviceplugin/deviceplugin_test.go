package deviceplugin

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"modeldock.io/internal/device"
	"modeldock.io/internal/placement"
)

const patience = 45 * time.Second

// kubelet is its side of the protocol: it takes all plugins' sockets away when
// it starts, listens, and follows whoever registers.
type kubelet struct {
	pluginapi.UnimplementedRegistrationServer
	dir    string
	server *grpc.Server
	stop   context.CancelFunc
	done   sync.WaitGroup

	mu      sync.Mutex
	request *pluginapi.RegisterRequest
	healthy int
	sick    int
	client  pluginapi.DevicePluginClient
}

func startKubelet(t *testing.T, dir string) *kubelet {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	k := &kubelet{dir: dir, server: grpc.NewServer()}
	listener, err := net.Listen("unix", filepath.Join(dir, kubeletSocket))
	if err != nil {
		t.Fatal(err)
	}
	pluginapi.RegisterRegistrationServer(k.server, k)
	k.done.Go(func() { _ = k.server.Serve(listener) })
	return k
}

func (k *kubelet) end() {
	k.mu.Lock()
	if k.stop != nil {
		k.stop()
	}
	k.mu.Unlock()
	k.server.Stop()
	k.done.Wait()
}

func (k *kubelet) Register(_ context.Context, r *pluginapi.RegisterRequest) (*pluginapi.Empty, error) {
	conn, err := grpc.NewClient("unix://"+filepath.Join(k.dir, r.GetEndpoint()), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	k.mu.Lock()
	k.request, k.stop, k.client = r, cancel, pluginapi.NewDevicePluginClient(conn)
	k.mu.Unlock()
	k.done.Go(func() {
		defer func() { _ = conn.Close() }()
		stream, err := pluginapi.NewDevicePluginClient(conn).ListAndWatch(ctx, &pluginapi.Empty{})
		for err == nil {
			var r *pluginapi.ListAndWatchResponse
			if r, err = stream.Recv(); err == nil {
				k.count(r.GetDevices())
			}
		}
	})
	return &pluginapi.Empty{}, nil
}

func (k *kubelet) count(devices []*pluginapi.Device) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.healthy, k.sick = 0, 0
	for _, d := range devices {
		if d.GetHealth() == pluginapi.Healthy {
			k.healthy++
		} else {
			k.sick++
		}
	}
}

func (k *kubelet) sees(healthy, sick int) func() bool {
	return func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.request != nil && k.healthy == healthy && k.sick == sick
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never came that %s", what)
		}
	}
}

func cards(healthy ...bool) []device.Card {
	var out []device.Card
	for i, h := range healthy {
		out = append(out, device.Card{UUID: string(rune('A' + i)), Index: i, Total: 10240, Healthy: h})
	}
	return out
}

func setup(t *testing.T) (*Plugin, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "plugins") // short: a socket's path has little room
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(Config{
		Dir: dir, Resource: DefaultResource, ChunkMiB: DefaultChunkMiB, Reserve: placement.DefaultReserve(),
		Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
		_ = os.RemoveAll(dir)
	})
	return p, dir
}

// perCard is what 10 240 MiB less 3 % have in chunks of 256 MiB.
const perCard = 38

func TestTheKubeletCountsTheMemoryOfHealthyCards(t *testing.T) {
	t.Parallel()
	p, dir := setup(t)
	p.Set(cards(true, true)) // before there is a kubelet
	k := startKubelet(t, dir)
	t.Cleanup(k.end)
	eventually(t, "the kubelet counts both cards", k.sees(2*perCard, 0))
	if k.request.GetResourceName() != DefaultResource || k.request.GetVersion() != pluginapi.Version || !k.request.GetOptions().GetGetPreferredAllocationAvailable() {
		t.Errorf("registered %+v", k.request)
	}
	p.Set(cards(true, false))
	eventually(t, "the sick card is no part of it", k.sees(perCard, perCard))
	p.Set(cards(true, true))
	eventually(t, "it is again", k.sees(2*perCard, 0))
}

func TestAKubeletThatStartsAnewIsTold(t *testing.T) {
	t.Parallel()
	p, dir := setup(t)
	p.Set(cards(true))
	for range 3 {
		k := startKubelet(t, dir)
		eventually(t, "this kubelet counts the card", k.sees(perCard, 0))
		k.end()
	}
}

func TestAllocateDecidesNothing(t *testing.T) {
	t.Parallel()
	p, dir := setup(t)
	p.Set(cards(true))
	k := startKubelet(t, dir)
	t.Cleanup(k.end)
	eventually(t, "the kubelet counts the card", k.sees(perCard, 0))
	want, err := k.client.GetPreferredAllocation(t.Context(), &pluginapi.PreferredAllocationRequest{ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{
		{AvailableDeviceIDs: []string{"0-3", "0-1", "0-2"}, MustIncludeDeviceIDs: []string{"0-2"}, AllocationSize: 2},
	}})
	if err != nil || !slices.Equal(want.GetContainerResponses()[0].GetDeviceIDs(), []string{"0-2", "0-1"}) {
		t.Errorf("preferred %v (%v)", want, err)
	}
	got, err := k.client.Allocate(t.Context(), &pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: []string{"0-1"}}, {}}})
	if err != nil || len(got.GetContainerResponses()) != 2 || got.GetContainerResponses()[0].GetEnvs()["NVIDIA_VISIBLE_DEVICES"] != "void" {
		t.Errorf("allocated %v (%v)", got, err)
	}
}

func TestSlots(t *testing.T) {
	t.Parallel()
	tiny := []device.Card{{UUID: "A", Total: 300, Healthy: true}, {UUID: "B", Index: 1, Total: 100, Healthy: true}}
	if got := slots(tiny, 256, placement.DefaultReserve()); len(got) != 0 {
		t.Errorf("cards too small for a chunk have %v", got)
	}
	seen := map[string]bool{}
	for _, s := range slots(cards(true, false, true), 256, placement.DefaultReserve()) {
		if seen[s.GetID()] || (s.GetHealth() == pluginapi.Healthy) == strings.HasPrefix(s.GetID(), "1-") {
			t.Errorf("slot %v", s)
		}
		seen[s.GetID()] = true
	}
	if len(seen) != 3*perCard {
		t.Errorf("%d slots", len(seen))
	}
	if p, err := New(Config{ChunkMiB: 0, Registerer: prometheus.NewRegistry()}); err == nil {
		t.Errorf("chunks of nothing: %+v", p)
	}
}
