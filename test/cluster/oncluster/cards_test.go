//go:build cluster

package oncluster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"modeldock.io/internal/placement"
	"modeldock.io/internal/placement/nodecards"
	"modeldock.io/test/cluster"
	"modeldock.io/test/cluster/dock"
	"modeldock.io/test/redisserver"
	"modeldock.io/test/scenario"
)

const cardMiB = 24576

// room is what one of these cards has for models.
var room = cardMiB - placement.DefaultReserve().Of(cardMiB)

// asking is a request for a simulated engine that needs so much of one card.
func asking(mib int64, more map[string]any) map[string]any {
	r := engine()
	model, _ := r["model"].(map[string]any)
	model["gpuMemoryMiB"] = mib
	for k, v := range more {
		model[k] = v
	}
	return r
}

// packed prefers a card that others use already.
func packed() map[string]any { return map[string]any{"class": "recommender"} }

// withCards is an installation on a cluster whose real node has two cards.
type withCards struct {
	*Installation
	a     scenario.Caller
	file  string
	redis *redisserver.Server
	cards *dock.Cards
}

// write says what the agent reads of its cards.
func (w *withCards) write(t *testing.T, cards ...map[string]any) {
	t.Helper()
	text, err := json.Marshal(cards)
	if err == nil {
		err = os.WriteFile(w.file+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(w.file+".new", w.file)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func card(uuid string, index int, used int64) map[string]any {
	return map[string]any{"uuid": uuid, "index": index, "name": "simulated 24 GiB", "totalMiB": cardMiB, "usedMiB": used, "healthy": true}
}

func installWithCards(t *testing.T, path string) *withCards {
	t.Helper()
	w := &withCards{file: filepath.Join(t.TempDir(), "cards.json")}
	w.write(t, card("SIM-A", 0, 0), card("SIM-B", 1, 0))
	scheduler, err := dock.SchedulerProgram(t.Context(), ground.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if w.redis, err = redisserver.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.redis.Stop() })
	cards, err := dock.StartCards(t.Context(), dock.CardsOptions{
		Cluster: ground.Cluster, Binary: ground.Binary, Scheduler: scheduler, Dir: filepath.Join(ground.Dir, "cards-"+path), Path: path, CardsFile: w.file, Redis: w.redis.Addr,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, p := range cards.Agents {
				t.Logf("%s: %s", p.Name, p.LogTail())
			}
			if cards.Scheduler != nil {
				t.Logf("%s: %s", cards.Scheduler.Name, cards.Scheduler.LogTail())
			}
		}
		if err := cards.Stop(); err != nil {
			t.Error(err)
		}
	})
	w.cards = cards
	w.Installation = ground.InstallOn(t, Caps{Tenant: 100, Pool: 1000}, cards)
	w.a = scenario.As(t, w, "team-a")
	known := 0 // controllers in a row that have read the nodes; they are asked by turns
	scenario.Eventually(t, "every controller to have read the nodes", func() bool {
		if known++; w.a.Do(http.MethodGet, "/nodes", nil).Status != http.StatusOK {
			known = 0
		}
		return known == 2*len(w.Controllers)
	}, func() any { return known })
	return w
}

// nodeShown is a node as the management API shows it.
type nodeShown struct {
	Node               string
	Simulated          bool
	LargestFragmentMiB int64
	Cards              []struct {
		UUID                    string
		FreeMiB, UnaccountedMiB int64
		MeasuredMiB             *int64
		MeasuredAgeSeconds      *float64
		Allocations             []struct {
			RequestID string
			MiB       int64
		}
	}
}

// nodes are the nodes as the management API shows them.
func (w *withCards) nodes(t *testing.T) map[string]nodeShown {
	t.Helper()
	var list struct{ Items []nodeShown }
	if err := json.Unmarshal(w.a.Must(http.StatusOK, http.MethodGet, "/nodes", nil).Body, &list); err != nil {
		t.Fatal(err)
	}
	all := map[string]nodeShown{}
	for _, n := range list.Items {
		all[n.Node] = n
	}
	return all
}

func (w *withCards) real(t *testing.T) nodeShown {
	t.Helper()
	return w.nodes(t)[ground.Cluster.Nodes()[0].Name]
}

// placedOn waits until a model is ready, and returns the card that explain
// names, which the node's shows as well.
func (w *withCards) placedOn(t *testing.T, id string) (node, uuid string) {
	t.Helper()
	w.a.Ready(id)
	scenario.Eventually(t, "explain to name the card of "+id, func() bool {
		_, placed := w.a.Explain(id).Step(t, "placed")
		node, _ = placed["node"].(string)
		uuid, _ = placed["card"].(string)
		status, _ := w.a.Explain(id).Step(t, "device")
		return node != "" && uuid != "" && status == "ok"
	}, func() any { return w.a.Explain(id) })
	return node, uuid
}

// holders are the requests that the API shows on a card.
func holders(n nodeShown, uuid string) map[string]int64 {
	all := map[string]int64{}
	for _, c := range n.Cards {
		if c.UUID == uuid {
			for _, a := range c.Allocations {
				all[a.RequestID] = a.MiB
			}
		}
	}
	return all
}

// pends waits until a model is told that it fits nowhere, with this figure.
func (w *withCards) pends(t *testing.T, id, figure string) {
	t.Helper()
	w.Broken(t, w.a, "team-a", id, link{"placed", "NoFragmentFits", []string{figure}, "release a model that holds card memory"})
	if r := w.a.Get(id); r.Reason != "NoFragmentFits" || !strings.Contains(r.Message, figure) {
		t.Errorf("the request says %s: %s", r.Reason, r.Message)
	}
}

// cardsStory is what a user sees of cards, whichever way they are delivered.
func (w *withCards) cardsStory(t *testing.T) {
	t.Helper()
	node := ground.Cluster.Nodes()[0].Name
	scenario.Eventually(t, "the node to show its cards", func() bool { return len(w.real(t).Cards) == 2 }, func() any { return w.nodes(t) })

	// 1. The first is on a card, and everybody says which.
	w.a.Submit("first", 1, asking(10000, packed()))
	on, first := w.placedOn(t, "first")
	if on != node || !strings.HasPrefix(first, "SIM-") {
		t.Errorf("the first is on %s, card %s", on, first)
	}
	w.a.MustChat("first")
	_, device := w.a.Explain("first").Step(t, "device")
	if device["card"] != first || device["simulated"] != true || device["isolation"] != "none" || device["cardModel"] != "simulated 24 GiB" {
		t.Errorf("explain says of its device %v", device)
	}
	out, code := w.Explain(t, "team-a", "first")
	if code != exitOK || !strings.Contains(out, first) {
		t.Errorf("explain ended with %d and does not name %s:\n%s", code, first, out)
	}

	// 2. The second shares it, the third goes to the other one, and the fourth
	// fits no card although their sum would do.
	w.a.Submit("second", 1, asking(10000, packed()))
	if _, second := w.placedOn(t, "second"); second != first {
		t.Errorf("the first is on %s and the second on %s", first, second)
	}
	w.a.Submit("third", 1, asking(12000, packed()))
	_, other := w.placedOn(t, "third")
	if other == first {
		t.Errorf("three are on %s: 32000 of %d MiB", first, room)
	}
	w.a.Submit("fourth", 1, asking(14000, packed()))
	w.pends(t, "fourth", fmt.Sprintf("largest fragment %d MiB < 14000 MiB on node %s (2 cards, ", room-12000, node))

	// 3. The API and the command line show the same arithmetic.
	n := w.real(t)
	if h := holders(n, first); len(h) != 2 || h["first"] != 10000 || h["second"] != 10000 || n.LargestFragmentMiB != room-12000 || !n.Simulated {
		t.Errorf("the API shows %+v", n)
	}
	text, _ := w.CLI(t, "team-a", "nodes")
	for _, part := range []string{node, "team-a/first: 10000, team-a/second: 10000", "team-a/third: 12000", fmt.Sprint(room-12000, " (largest)")} {
		if !strings.Contains(text, part) {
			t.Errorf("modeldock nodes does not show %q:\n%s", part, text)
		}
	}

	// 4. What a release gives back is taken up by itself.
	w.a.Release("third")
	w.a.Released("third")
	released := time.Now()
	if _, fourth := w.placedOn(t, "fourth"); fourth != other {
		t.Errorf("the fourth is on %s, and %s was freed", fourth, other)
	}
	t.Logf("the fourth was ready %s after the credit of the third", time.Since(released).Round(10*time.Millisecond))

	// 5. In the end nobody holds anything.
	for _, id := range []string{"first", "second", "fourth"} {
		w.a.Release(id)
		w.a.Released(id)
	}
	scenario.Eventually(t, "nobody to hold anything", func() bool { n := w.real(t); return n.LargestFragmentMiB == room }, func() any { return w.nodes(t) })
}

// The story by the device plugin: our scheduler chooses, on real and simulated
// nodes, and nobody else has a say.
func TestCardsByDevicePlugin(t *testing.T) {
	w := installWithCards(t, dock.DevicePlugin)
	w.cardsStory(t)
	t.Run("idle models make room", w.idleMakesRoom)
	t.Run("room is kept", w.roomIsKept)
	t.Run("nobody else decides", w.nobodyElseDecides)
	t.Run("measured memory", w.measuredMemoryCounts)
	t.Run("simulated node", w.largeCardElsewhere)
	scenario.VerifyClean(t, w)
}

// The same story where each replica claims its card.
func TestCardsByClaims(t *testing.T) {
	w := installWithCards(t, dock.DRA)
	w.cardsStory(t)
	t.Run("idle models make room", w.idleMakesRoom)
	scenario.VerifyClean(t, w)
	out := kubectl(t, w.Installation, "get", "resourceclaims,resourceclaimtemplates", "-o", "name")
	if strings.TrimSpace(out) != "" {
		t.Errorf("left behind: %s", out)
	}
}

// What a tenant with rights on Pods could try gains nothing.
func (w *withCards) nobodyElseDecides(t *testing.T) {
	w.a.Submit("guarded", 1, asking(10000, packed()))
	_, uuid := w.placedOn(t, "guarded")
	pod := w.Pods(t, "team-a", "guarded")[0]
	other := map[string]string{"SIM-A": "SIM-B", "SIM-B": "SIM-A"}[uuid]
	denied := func(what, says string, args ...string) {
		t.Helper()
		out, err := w.Kubectl(t.Context(), args...)
		if err == nil || !strings.Contains(out+err.Error(), says) {
			t.Errorf("%s: %v\n%s", what, err, out)
		}
	}
	denied("another card by an edit", "written by modeldock-scheduler alone", "annotate", "pod", pod.Name, "--overwrite", "scheduler.ai/gpu-device-uuid="+other)
	denied("less memory by an edit", "cannot be changed", "annotate", "pod", pod.Name, "--overwrite", "scheduler.ai/gpu-memory-mb=1")
	for what, c := range map[string]struct{ pod, says string }{
		"a decision of one's own": {`{"annotations":{"scheduler.ai/gpu-memory-mb":"1000","scheduler.ai/gpu-device-uuid":"SIM-A"}}|{}`, "written by modeldock-scheduler alone"},
		"a node of one's own":     {`{"annotations":{"scheduler.ai/gpu-memory-mb":"1000"}}|{"nodeName":"` + ground.Cluster.Nodes()[0].Name + `"}`, "must not set spec.nodeName"},
		"every card":              {`{"annotations":{"scheduler.ai/gpu-memory-mb":"1000"}}|{"env":"all"}`, "NVIDIA_VISIBLE_DEVICES must not be set"},
	} {
		file := w.manifest(t, c.pod)
		denied(what, c.says, "create", "-f", file)
	}
	// Another scheduler's name is replaced, so that its Pod is counted like others.
	kubectl(t, w.Installation, "create", "-f", w.manifest(t, `{"annotations":{"scheduler.ai/gpu-memory-mb":"1000"}}|{"schedulerName":"default-scheduler"}`))
	var on string
	scenario.Eventually(t, "the Pod to be placed by its card", func() bool {
		scheduler, card, _ := strings.Cut(kubectl(t, w.Installation, "get", "pod", "tried", "-o", `jsonpath={.spec.schedulerName} {.metadata.annotations.scheduler\.ai/gpu-device-uuid}`), " ")
		on = card
		return scheduler == "modeldock-scheduler" && card != ""
	}, func() any { return kubectl(t, w.Installation, "get", "pod", "tried", "-o", "yaml") })
	scenario.Eventually(t, "the Pod to be counted", func() bool { return holders(w.real(t), on)[""] == 1000 }, func() any { return w.nodes(t) })
	kubectl(t, w.Installation, "delete", "pod", "tried", "--grace-period=0", "--force")
	w.a.Release("guarded")
	w.a.Released("guarded")
}

// manifest writes a Pod: metadata and spec beside its one container, or the
// container's NVIDIA_VISIBLE_DEVICES as "env".
func (w *withCards) manifest(t *testing.T, parts string) string {
	t.Helper()
	meta, spec, _ := strings.Cut(parts, "|")
	var metadata, fields map[string]any
	if err := json.Unmarshal([]byte(meta), &metadata); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(spec), &fields); err != nil {
		t.Fatal(err)
	}
	metadata["name"] = "tried"
	container := map[string]any{"name": "x", "image": dock.Image, "args": []string{"version"}}
	if value, there := fields["env"]; there {
		delete(fields, "env")
		container["env"] = []map[string]any{{"name": "NVIDIA_VISIBLE_DEVICES", "value": value}}
	}
	fields["containers"], fields["restartPolicy"] = []any{container}, corev1.RestartPolicyAlways
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": fields})
	file := filepath.Join(t.TempDir(), "pod.json")
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// Memory that somebody uses without having been given it is not given away
// while it is seen; without Redis, accounts alone count.
func (w *withCards) measuredMemoryCounts(t *testing.T) {
	w.write(t, card("SIM-A", 0, 16000), card("SIM-B", 1, 16000))
	unaccounted := int64(16000) - placement.DefaultReserve().Of(cardMiB)
	scenario.Eventually(t, "the measured memory to be shown", func() bool {
		c := w.real(t).Cards
		return c[0].UnaccountedMiB == unaccounted && c[1].UnaccountedMiB == unaccounted && c[0].MeasuredMiB != nil && *c[0].MeasuredMiB == 16000 && *c[0].MeasuredAgeSeconds < 5
	}, func() any { return w.nodes(t) })
	// The scheduler reads by itself, and counts whom the others count.
	fragment := fmt.Sprintf(`modeldock_gpu_memory_largest_fragment_bytes{node="%s"} %s`, ground.Cluster.Nodes()[0].Name, strconv.FormatFloat(float64((room-unaccounted)<<20), 'g', -1, 64))
	var text string
	scenario.Eventually(t, "the scheduler to know of it", func() bool {
		var err error
		text, err = w.cards.Scheduler.Metrics(t.Context())
		return err == nil && strings.Contains(text, fragment+"\n")
	}, func() any { return text })
	w.a.Submit("squeezed", 1, asking(12000, nil))
	w.pends(t, "squeezed", fmt.Sprintf("largest fragment %d MiB < 12000 MiB", room-unaccounted))
	w.redis.Kill()
	w.placedOn(t, "squeezed") // what is not seen any more does not count for ever
	n := w.real(t)
	if c := n.Cards[0]; c.UnaccountedMiB != 0 || c.MeasuredAgeSeconds == nil || *c.MeasuredAgeSeconds < 5 {
		t.Errorf("without Redis the API shows %+v", c)
	}
	text, _ = w.CLI(t, "team-a", "nodes")
	if !strings.Contains(text, "s old)") {
		t.Errorf("modeldock nodes does not say that the measurement is old:\n%s", text)
	}
	if text, err := w.cards.Scheduler.Metrics(t.Context()); err != nil || !strings.Contains(text, "modeldock_gpu_measurements_up 0\n") {
		t.Errorf("the scheduler's metrics do not say that Redis is away: %v\n%s", err, text)
	}
	w.a.Release("squeezed")
	w.a.Released("squeezed")
}

// A model that no card of the real node holds goes to a simulated node that
// comes later, and everything says that it is one.
func (w *withCards) largeCardElsewhere(t *testing.T) {
	w.a.Submit("large", 1, asking(60000, nil))
	w.pends(t, "large", fmt.Sprintf("largest fragment %d MiB < 60000 MiB", room))
	text, err := nodecards.Encode([]nodecards.Card{{UUID: "SIM-FAR", Model: "simulated 80 GiB", TotalMiB: 81920, Healthy: true, Isolation: nodecards.IsolationNone, Simulated: true}})
	if err != nil {
		t.Fatal(err)
	}
	const far = "far-"
	err = ground.Cluster.AddSimulatedNodes(t.Context(), 1, cluster.NodeTemplate{
		Prefix: far, NoTaint: true, Annotations: map[string]string{nodecards.Annotation: text}, Resources: map[corev1.ResourceName]string{"modeldock.io/gpu-memory": "310"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := ground.Cluster.RemoveSimulatedNodes(t.Context(), 1, far); err != nil {
			t.Error(err)
		}
	}()
	if node, uuid := w.placedOn(t, "large"); node != far+"0" || uuid != "SIM-FAR" {
		t.Errorf("it is on %s, card %s", node, uuid)
	}
	if n := w.nodes(t)[far+"0"]; !n.Simulated || holders(n, "SIM-FAR")["large"] != 60000 {
		t.Errorf("the API shows %+v", n)
	}
	w.a.Release("large")
	w.a.Released("large")
}
