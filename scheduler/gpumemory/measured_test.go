package gpumemory

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"modeldock.io/internal/device/measured"
)

// seen is what a test says is measured; it counts the questions.
type seen struct {
	cards map[string]measured.Card
	uses  map[string]int
}

func (s *seen) All() map[string]measured.Card { return s.cards }

func (s *seen) Fresh(uuid string) (measured.Card, bool) {
	s.uses[uuid]++
	c, known := s.cards[uuid]
	return c, known && c.Fresh()
}

func measuring(t *testing.T, nodes ...*v1.Node) (*bed, *seen, func()) {
	t.Helper()
	b := setup(t, nodes...)
	s := newSamples()
	b.measured = s
	from := &seen{cards: map[string]measured.Card{}, uses: map[string]int{}}
	return b, from, func() { b.clock.add(time.Second); b.renew(t.Context(), s, from) }
}

// known tells the plugin's lists of Pods.
func (b *bed) known(t *testing.T, pods ...*v1.Pod) {
	t.Helper()
	for _, p := range pods {
		if err := b.handle.SharedInformerFactory().Core().V1().Pods().Informer().GetStore().Add(p); err != nil {
			t.Fatal(err)
		}
	}
}

// Memory that is in use and was given to nobody counts as taken, as long as the
// sample is fresh; the accounts of its own moment are what it is compared with.
func TestMeasuredMemoryOfNobodyCounts(t *testing.T) {
	t.Parallel()
	b, from, renew := measuring(t, node(t, "n", 24576))
	fits := func(mib string) *fwk.Status {
		t.Helper()
		node, _, status := b.cycle(t, pod("asks", mib))
		if status.IsSuccess() {
			b.Unreserve(t.Context(), nil, pod("asks", mib), node)
		}
		return status
	}
	renew()
	if status := fits("23000"); !status.IsSuccess() {
		t.Fatalf("without any measurement: %s", status)
	}
	from.cards["n-0"] = measured.Card{Node: "n", UsedMiB: 16000, Age: time.Second}
	renew()
	// 24576 − 738 reserved − (16000 − 738) of nobody.
	if status := fits("12000"); status.Code() != fwk.Unschedulable && status.Code() != fwk.UnschedulableAndUnresolvable || !strings.Contains(status.Message(), "largest fragment 8576 MiB < 12000 MiB") {
		t.Errorf("with 16000 MiB of nobody: %s %s", status.Code(), status.Message())
	}
	if status := fits("8000"); !status.IsSuccess() {
		t.Errorf("what is left: %s", status)
	}

	// A model that was given 15000 of them explains them.
	bound := on(pod("bound", "15000"), "n", "n-0")
	b.pods = []*v1.Pod{bound}
	b.known(t, bound)
	renew()
	if status := fits("8000"); !status.IsSuccess() {
		t.Errorf("accounted to a Pod: %s", status)
	}

	// One that was placed and has ended since is no explanation, although the
	// ledger remembers it for a while.
	placed := pod("placed", "8000")
	b.place(t, placed)
	b.ledger.bound(placed.UID, "n")
	b.ledger.bound(placed.UID, "")
	if sum, err := b.allocated(); err != nil || sum["n-0"] != 15000 {
		t.Errorf("allocated are %v, %v", sum, err)
	}

	// An old sample says nothing, and neither does one of another node.
	b.pods = nil
	if err := b.handle.SharedInformerFactory().Core().V1().Pods().Informer().GetStore().Delete(bound); err != nil {
		t.Fatal(err)
	}
	for range 8 { // the accounts of when it was there are over
		renew()
	}
	if status := fits("12000"); status.IsSuccess() {
		t.Error("16000 MiB of nobody do not count")
	}
	for what, c := range map[string]measured.Card{"old": {Node: "n", UsedMiB: 16000, Age: time.Minute}, "of another node": {Node: "m", UsedMiB: 16000}} {
		from.cards["n-0"] = c
		renew()
		if status := fits("12000"); !status.IsSuccess() {
			t.Errorf("a sample that is %s: %s", what, status)
		}
	}
	if delete(from.cards, "n-0"); from.uses["n-0"] == 0 {
		t.Error("no question was counted")
	}
	before := from.uses["n-0"]
	if renew(); from.uses["n-0"] != before+1 {
		t.Error("a card of which nothing is known is not counted as absent")
	}
}

// Who waits is woken when memory of nobody went away, and only then.
func TestLessMeasuredWakes(t *testing.T) {
	t.Parallel()
	b, from, renew := measuring(t, node(t, "n", 24576))
	waits := pod("waits", "12000")
	b.known(t, waits, pod("plain", ""), on(pod("bound", "1000"), "n", "n-0"))
	for _, step := range []struct {
		used int64
		wake bool
	}{{16000, false}, {16000, false}, {17000, false}, {500, true}, {500, false}} {
		from.cards["n-0"] = measured.Card{Node: "n", UsedMiB: step.used}
		woken := len(b.woken)
		renew()
		if got := len(b.woken) > woken; got != step.wake {
			t.Errorf("%d MiB in use: woken %v", step.used, got)
		}
	}
	if last := b.woken[len(b.woken)-1]; len(last) != 1 || last["default/waits"] == nil {
		t.Errorf("woken were %v", last)
	}
	from.cards["n-0"] = measured.Card{Node: "n", UsedMiB: 9000}
	renew()
	woken := len(b.woken)
	from.cards["n-0"] = measured.Card{Node: "n", UsedMiB: 9000, Age: time.Minute}
	if renew(); len(b.woken) != woken+1 {
		t.Error("nobody was woken when the sample became stale")
	}
}

func TestArgs(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(file, []byte("redis://u:p@h:1/0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	raw := func(text string) runtime.Object {
		return &runtime.Unknown{Raw: []byte(text), ContentType: runtime.ContentTypeJSON}
	}
	for text, want := range map[string]string{`{}`: "", `{"redis":"h:1"}`: "h:1", `{"redisURLFile":"` + file + `"}`: "redis://u:p@h:1/0"} {
		if got, err := argsOf(raw(text)); err != nil || got.Redis != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	if got, err := argsOf(nil); err != nil || got.Redis != "" {
		t.Errorf("none: %+v, %v", got, err)
	}
	for _, bad := range []string{`{"redis":"h:1","redisURLFile":"` + file + `"}`, `{"redisURLFile":"/nowhere"}`, `{"redis":1}`} {
		if got, err := argsOf(raw(bad)); err == nil {
			t.Errorf("%s: %+v", bad, got)
		}
	}
}
