package deviceplugin

import (
	"context"
	"fmt"
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
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/device"
	"modeldock.io/internal/placement"
)

const (
	patience      = 45 * time.Second
	holdersSocket = "holders.sock"
)

// kubelet is its side of the protocol: it takes all plugins' sockets away when
// it starts, listens, and follows whoever registers.
type kubelet struct {
	pluginapi.UnimplementedRegistrationServer
	podresources.UnimplementedPodResourcesListerServer
	dir    string
	server *grpc.Server
	stop   context.CancelFunc
	done   sync.WaitGroup

	mu      sync.Mutex
	request *pluginapi.RegisterRequest
	healthy int
	sick    int
	seen    []*pluginapi.Device
	client  pluginapi.DevicePluginClient
	holders []*podresources.PodResources
}

func startKubelet(t *testing.T, dir string, holders ...*podresources.PodResources) *kubelet {
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
	k := &kubelet{dir: dir, server: grpc.NewServer(), holders: holders}
	pluginapi.RegisterRegistrationServer(k.server, k)
	podresources.RegisterPodResourcesListerServer(k.server, k)
	for _, name := range []string{holdersSocket, kubeletSocket} {
		listener, err := net.Listen("unix", filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		k.done.Go(func() { _ = k.server.Serve(listener) })
	}
	return k
}

// holds is what the kubelet says of a Pod's chunks.
func holds(pod string, ids ...string) *podresources.PodResources {
	return &podresources.PodResources{Namespace: "default", Name: pod, Containers: []*podresources.ContainerResources{
		{Name: "engine", Devices: []*podresources.ContainerDevices{{ResourceName: DefaultResource, DeviceIds: ids}, {ResourceName: "example.com/other", DeviceIds: []string{"0-0"}}}},
	}}
}

// placed is a Pod that the API server knows, on these cards.
func placed(name, cards string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{v1alpha1.AnnotationCard: cards}},
		Spec:       corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{StartTime: &metav1.Time{Time: time.Now()}},
	}
}

// List implements podresources.PodResourcesListerServer.
func (k *kubelet) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return &podresources.ListPodResourcesResponse{PodResources: k.holders}, nil
}

func (k *kubelet) hold(holders ...*podresources.PodResources) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.holders = holders
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
	k.healthy, k.sick, k.seen = 0, 0, devices
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

func configOf(dir string, client kubernetes.Interface) Config {
	return Config{
		Dir: dir, PodResources: filepath.Join(dir, holdersSocket), Node: "n", Resource: DefaultResource, ChunkMiB: DefaultChunkMiB, Reserve: placement.DefaultReserve(),
		Client: client, Clock: time.Now, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	}
}

func setup(t *testing.T, pods ...runtime.Object) (*Plugin, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "plugins") // short: a socket's path has little room
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p, _ := start(t, configOf(dir, fake.NewClientset(pods...)))
	return p, dir
}

func start(t *testing.T, cfg Config) (p *Plugin, stop func()) {
	t.Helper()
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); p.Run(ctx) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return p, stop
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

// room is what the kubelet has left for others, by its own account.
func (k *kubelet) room() (ids []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	held := map[string]bool{}
	for _, p := range k.holders {
		for _, id := range p.GetContainers()[0].GetDevices()[0].GetDeviceIds() {
			held[id] = true
		}
	}
	for _, d := range k.seen {
		if d.GetHealth() == pluginapi.Healthy && !held[d.GetID()] {
			ids = append(ids, d.GetID())
		}
	}
	return ids
}

func numbered(card, from, n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("%d-%d", card, from+i))
	}
	return ids
}

// Two cards, and the Pods of each hold chunks that are named like the other's.
// When one falls ill, its Pods go on holding theirs, and the other one has all
// the room that it had.
func TestASickCardTakesNoRoomOfAHealthyOne(t *testing.T) {
	t.Parallel()
	p, dir := setup(t, placed("a", "A"), placed("b", "B"), placed("both", "A,B"))
	p.Set(cards(true, true))
	onA, onB, both := holds("a", numbered(1, 0, 10)...), holds("b", numbered(0, 0, 20)...), holds("both", numbered(1, 10, 8)...)
	k := startKubelet(t, dir, onA, onB, both)
	t.Cleanup(k.end)
	eventually(t, "the kubelet counts both cards", k.sees(2*perCard, 0))

	p.Set(cards(true, false))
	// Of B's 38 chunks, 20 and 4 are held; of A's, 10 and 4.
	eventually(t, "what is free on the sick card is no part of it", k.sees(perCard+24, perCard-24))
	if left := k.room(); len(left) != perCard-14 {
		t.Errorf("the kubelet has %d chunks for others, the healthy card %d: %v", len(left), perCard-14, left)
	}
	give := func(ids ...string) error {
		_, err := k.client.Allocate(t.Context(), &pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: ids}}})
		return err
	}
	// A Pod ends on the sick card. The kubelet has room for another one until it
	// is told, and must not give it.
	k.hold(onA, both)
	if err := give("0-3"); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "1 of 1 chunks of 256 MiB cannot be given: the healthy cards of node n have 38 and Pods hold 14") {
		t.Errorf("what was held on the sick card is given: %v", err)
	}
	eventually(t, "what it left is no part of it either", k.sees(perCard+4, perCard-4))
	left := k.room()
	if len(left) != perCard-14 {
		t.Fatalf("the kubelet has %d chunks for others, the healthy card %d: %v", len(left), perCard-14, left)
	}
	// The last chunk of the healthy card is given, and not one more.
	if err := give(left...); err != nil {
		t.Error(err)
	}
	k.mu.Lock()
	seen := k.seen
	k.mu.Unlock()
	for _, d := range seen {
		if d.GetHealth() != pluginapi.Healthy && give(d.GetID()) == nil {
			t.Errorf("chunk %s of the sick card is given", d.GetID())
		}
	}
	p.Set(cards(true, true))
	eventually(t, "both cards count again", k.sees(2*perCard, 0))
}

// An agent that starts anew, on a node with a sick card and one that is gone,
// knows from the kubelet what is held, before it says how much there is.
func TestAnAgentThatStartsAnewKnowsWhatIsHeld(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "plugins")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	client := fake.NewClientset(placed("a", "A"), placed("b", "B"), placed("c", "C"))
	first, stop := start(t, configOf(dir, client))
	first.Set(cards(true, true, true))
	k := startKubelet(t, dir, holds("a", numbered(2, 0, 5)...), holds("b", numbered(0, 0, 20)...), holds("c", numbered(0, 20, 10)...))
	t.Cleanup(k.end)
	eventually(t, "the kubelet counts three cards", k.sees(3*perCard, 0))
	stop()
	second, _ := start(t, configOf(dir, client))
	second.Set(cards(true, false))
	// 5 of A's are held, under the names of a card that is gone, and 30 are lost.
	eventually(t, "the kubelet counts the healthy card and what is held", k.sees(perCard+30, perCard-25))
	if left := k.room(); len(left) != perCard-5 {
		t.Errorf("the kubelet has %d chunks for others, the healthy card %d: %v", len(left), perCard-5, left)
	}
}

// Nobody gets chunks of a node with a sick card while nobody can tell which are
// held: any of them may be. Without a sick card it makes no difference.
func TestHoldersThatNobodyKnows(t *testing.T) {
	t.Parallel()
	p, err := New(configOf(t.TempDir(), fake.NewClientset()))
	if err != nil {
		t.Fatal(err)
	}
	p.Set(cards(true, true))
	p.look(t.Context()) // there is no kubelet
	if err := p.give([]string{"0-0"}); err != nil {
		t.Error(err)
	}
	p.Set(cards(true, false))
	if err := p.give([]string{"0-1"}); err == nil {
		t.Error("a chunk is given that a Pod may hold")
	}
	p.answered([]holder{{ids: []string{"0-5"}}}, nil, time.Now())
	if err := p.give([]string{"0-1"}); err != nil {
		t.Error(err)
	}
}

// Who a Pod of the kubelet is says the API server, and is asked again when its
// chunks were given to another one of that name.
func TestHoldersAreReadOnce(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "plugins")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	k := startKubelet(t, dir, holds("a", "0-2", "0-1"), holds("new", "0-3"), holds("elsewhere", "0-4"), holds("deleted", "0-5"), holds("past", "0-6"))
	t.Cleanup(k.end)
	young, elsewhere, past := placed("new", "A"), placed("elsewhere", "A"), placed("past", "")
	young.Status.StartTime, elsewhere.Spec.NodeName, past.Annotations = nil, "m", nil
	client := fake.NewClientset(placed("a", "A,B"), young, elsewhere, past)
	r := &reader{socket: filepath.Join(dir, holdersSocket), resource: DefaultResource, node: "n", client: client}
	want := map[string]string{"a": "A,B", "new": "", "elsewhere": "", "deleted": "", "past": ""}
	for range 2 {
		got, unsure, err := r.read(t.Context())
		if err != nil || len(got) != len(want) || strings.Count(fmt.Sprint(unsure), "read the cards of Pod") != 3 {
			t.Fatalf("%v, %v, %v", got, unsure, err)
		}
		for _, h := range got {
			if strings.Join(h.cards, ",") != want[h.pod.Name] || !slices.IsSorted(h.ids) {
				t.Errorf("%+v", h)
			}
		}
	}
	if asked := len(client.Actions()); asked != 2*3+2 {
		t.Errorf("the API server was asked %d times for two Pods that it knew at once and three that it did not", asked)
	}
	r.forget([]string{"0-1"})
	if _, _, err := r.read(t.Context()); err != nil || len(client.Actions()) != 2*3+2+4 {
		t.Errorf("asked %d times, %v", len(client.Actions()), err)
	}
	k.end()
	if _, _, err := r.read(t.Context()); err == nil || !strings.Contains(err.Error(), "who holds "+DefaultResource) {
		t.Errorf("without a kubelet: %v", err)
	}
}

func TestDivide(t *testing.T) {
	t.Parallel()
	tiny := []device.Card{{UUID: "A", Total: 300, Healthy: true}, {UUID: "B", Index: 1, Total: 100, Healthy: true}}
	if got := divide(tiny, nil, true, nil, 256, placement.DefaultReserve()); len(got.devices) != 0 {
		t.Errorf("cards too small for a chunk have %v", got)
	}
	seen := map[string]bool{}
	for _, d := range divide(cards(true, false, true), nil, true, nil, 256, placement.DefaultReserve()).devices {
		if seen[d.GetID()] || (d.GetHealth() == pluginapi.Healthy) == strings.HasPrefix(d.GetID(), "1-") {
			t.Errorf("slot %v", d)
		}
		seen[d.GetID()] = true
	}
	if len(seen) != 3*perCard {
		t.Errorf("%d slots", len(seen))
	}
	// What was given since somebody held it on a sick card is another's, on a healthy one.
	sick := []holder{{ids: []string{"0-0", "0-1"}, cards: []string{"B"}}}
	if d := divide(cards(true, false), sick, true, map[string]bool{"0-0": true}, 256, placement.DefaultReserve()); d.taken != 1 || len(d.open) != perCard || !d.open["0-0"] || d.open["0-1"] {
		t.Errorf("%d are taken, %d may be given", d.taken, len(d.open))
	}
	if p, err := New(Config{ChunkMiB: 0, Registerer: prometheus.NewRegistry()}); err == nil {
		t.Errorf("chunks of nothing: %+v", p)
	}
}
