package metricsapi

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"modeldock.io/internal/elastic"
)

func of(v float64) elastic.Reading { return elastic.Reading{Total: &v} }

// chat has two ready replicas and one that loads; of one, the engine does not
// tell its cache.
func chat() elastic.Signals {
	return elastic.Signals{
		Replicas: 3,
		Pods:     []elastic.Pod{{Name: "uid-chat-1", State: elastic.PodReady}, {Name: "uid-chat-2", State: elastic.PodReady}, {Name: "uid-chat-3", State: elastic.PodPending}},
		Values: map[string]elastic.Reading{
			elastic.MetricQueue: of(7), elastic.MetricLatency: of(0),
			elastic.MetricKVCache: {Replica: map[string]float64{"uid-chat-1": 62.5}},
			elastic.MetricMemory:  {Replica: map[string]float64{}},
		},
	}
}

const pods, models = path + "/namespaces/models/pods/", path + "/namespaces/models/modelservices.modeldock.io/"

func (b *bench) chat() {
	b.objects.model("chat")
	for _, name := range []string{"chat-1", "chat-2", "chat-3"} {
		b.objects.pod(name, "chat")
	}
	b.signals["chat"] = chat()
}

// TestValues: totals of models, parts of Pods, and nothing where nothing is
// known.
func TestValues(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.chat()
	for _, c := range []struct {
		path string
		want string
	}{
		{models + "chat/" + elastic.MetricQueue, "chat=7"},
		{models + "chat/" + elastic.MetricLatency, "chat=0"}, // no traffic is a value
		{models + "chat/" + elastic.MetricKVCache, "chat=62500m"},
		{models + "*/" + elastic.MetricQueue + "?labelSelector=team%3Dchat", "chat=7"},
		{models + "*/" + elastic.MetricQueue + "?labelSelector=team%3Dother", ""},
		{models + "*/" + elastic.MetricQueue + "?metricLabelSelector=queue%3Dfast", ""},
		{pods + "*/" + elastic.MetricQueue, "chat-1=3500m chat-2=3500m"},
		{pods + "*/" + elastic.MetricKVCache, "chat-1=62500m"},
		{pods + "*/" + elastic.MetricMemory, ""},
		{pods + "chat-2/" + elastic.MetricLatency, "chat-2=0"},
	} {
		var list valueList
		if code := b.get(c.path, &list); code != http.StatusOK || list.Kind != "MetricValueList" {
			t.Errorf("%s: %d %s", c.path, code, list.Kind)
		}
		var got []string
		for _, v := range list.Items {
			if v.Timestamp.IsZero() || v.DescribedObject.Namespace != "models" || !strings.Contains(c.path, v.Metric.Name) {
				t.Errorf("%s: %+v", c.path, v)
			}
			got = append(got, v.DescribedObject.Name+"="+v.Value.String())
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %q, want %q", c.path, s, c.want)
		}
	}
}

// TestUnknown: what is not known is an error, never zero.
func TestUnknown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.chat()
	b.objects.model("silent")
	b.objects.pod("silent-1", "silent")
	expect := func(path string, code int, says string) {
		t.Helper()
		var s metav1.Status
		if got := b.get(path, &s); got != code || s.Status != metav1.StatusFailure || !strings.Contains(s.Message, says) {
			t.Errorf("%s: %d, %+v; want %d with %q", path, got, s, code, says)
		}
	}
	expect(models+"chat/"+elastic.MetricMemory, http.StatusNotFound, "not zero")
	expect(pods+"chat-3/"+elastic.MetricQueue, http.StatusNotFound, "not zero")
	expect(models+"silent/"+elastic.MetricQueue, http.StatusServiceUnavailable, "not known")
	expect(pods+"silent-1/"+elastic.MetricQueue, http.StatusServiceUnavailable, "not known")
	expect(models+"gone/"+elastic.MetricQueue, http.StatusNotFound, "gone")
	expect(models+"chat/cpu", http.StatusNotFound, elastic.MetricQueue)
	expect(path+"/namespaces/models/deployments.apps/chat/"+elastic.MetricQueue, http.StatusNotFound, "modelservices.modeldock.io")
	expect(models+"*/"+elastic.MetricQueue+"?labelSelector=%21%21", http.StatusBadRequest, "labelSelector")
	blind := chat()
	blind.Blind = true
	b.signals["chat"] = blind
	expect(models+"chat/"+elastic.MetricQueue, http.StatusServiceUnavailable, "gateway")
	expect(pods+"*/"+elastic.MetricQueue, http.StatusServiceUnavailable, "gateway")
	b.objects.away = errors.New("the API server is away")
	expect(models+"chat/"+elastic.MetricQueue, http.StatusInternalServerError, "away")
}

func TestDiscovery(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var g metav1.APIGroup
	if code := b.get("/apis/"+Group, &g); code != http.StatusOK || g.PreferredVersion.Version != "v1beta2" {
		t.Errorf("%d %+v", code, g)
	}
	var list metav1.APIResourceList
	if code := b.get(path, &list); code != http.StatusOK || len(list.APIResources) != 8 || list.APIResources[0].Name != "pods/"+elastic.MetricQueue {
		t.Errorf("%d %+v", code, list)
	}
}

// TestCallers: only the API server is listened to, and only of callers who may.
func TestCallers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.chat()
	var s metav1.Status
	b.denied = errors.New("mallory may not")
	if code := b.get(models+"chat/"+elastic.MetricQueue, &s); code != http.StatusForbidden || !strings.Contains(s.Message, "mallory") {
		t.Errorf("%d %+v", code, s)
	}
	if a := b.asked[len(b.asked)-1]; a != (Access{"models", resourceModels, "chat", elastic.MetricQueue}) {
		t.Errorf("asked for %+v", a)
	}
	for name, c := range map[string]*http.Client{
		"of another authority": newAuthority(t, "front").client(t, "front-proxy"),
		"none":                 b.server.Client(),
	} {
		b.as = c
		if code := b.get(path, &s); code != http.StatusUnauthorized {
			t.Errorf("a certificate %s: %d", name, code)
		}
	}
	other := setup(t)
	other.objects.config.Data["requestheader-allowed-names"] = `["somebody-else"]`
	if code := other.get(path, &s); code != http.StatusUnauthorized || !strings.Contains(s.Message, "front-proxy") {
		t.Errorf("a certificate of another name: %d %+v", code, s)
	}
}
