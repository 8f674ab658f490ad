package gateway_test

import (
	"net/http"
	"strings"
	"testing"
)

// metrics reads one metric: its value by the values of its labels, which are
// ordered by the labels' names.
func (b *bench) metrics(name string) map[string]float64 {
	b.t.Helper()
	families, err := b.registry.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := make([]string, 0, len(m.GetLabel()))
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			values[strings.Join(labels, ",")] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return values
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	b := setup(t)
	held := make(chan struct{})
	b.engine("team-a", "m1", "v1", func(w http.ResponseWriter, r *http.Request) {
		events(chunkEvent("a"))(w, r)
		<-held
		events(doneEvent)(w, r)
	})
	answer := b.later(keyA, helloStream)
	eventually(t, "the first chunk", func() bool {
		return b.metrics("modeldock_gateway_first_chunk_seconds")["team-a/m1,v1"] == 1
	})
	if m := b.metrics("modeldock_gateway_in_flight"); m["team-a/m1,v1"] != 1 {
		t.Errorf("in flight %v", m)
	}
	close(held)
	<-answer
	for _, name := range []string{"x", "y/z", "m1@v9"} {
		b.chat(keyA, strings.Replace(helloChat, "m1", name, 1))
	}
	b.chat("", helloChat)
	conn := b.dialRequest(strings.Replace(helloStream, "m1", "m1@v1", 1))
	_ = conn.Close()
	// Labels are code, model, tenant, version.
	eventually(t, "the counts", func() bool {
		m := b.metrics("modeldock_gateway_requests_total")
		return m["200,team-a/m1,team-a,v1"]+m["499,team-a/m1,team-a,v1"] == 2 && m["404,other,team-a,other"] == 3 && m["401,other,,other"] == 1
	})
	if m := b.metrics("modeldock_gateway_first_byte_seconds"); m["team-a/m1,v1"] < 1 {
		t.Errorf("first bytes %v", m)
	}
	if m := b.metrics("modeldock_gateway_snapshot_age_seconds"); m[""] < 0 {
		t.Errorf("snapshot age %v", m)
	}
	eventually(t, "nothing in flight", func() bool { return b.metrics("modeldock_gateway_in_flight")["team-a/m1,v1"] == 0 })
}
