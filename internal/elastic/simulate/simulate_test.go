package simulate_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/elastic"
	"modeldock.io/internal/elastic/simulate"
	"modeldock.io/internal/modelspec"
)

const azure = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:04.0000000,800,10\r\n2023-11-16 18:17:03.0000000,0,100\r\n2023-11-16 18:47:03.0000000,0,1\r\n"

// TestSleeper: two requests, half an hour of nothing, one more: a model that
// may sleep is woken twice, and each wake-up costs its cold start.
func TestSleeper(t *testing.T) {
	t.Parallel()
	trace, err := simulate.Read(strings.NewReader(azure), 1, 1)
	if err != nil || len(trace) != 3 || trace[1] != (simulate.Request{At: time.Second, Prompt: 800, Answer: 10}) {
		t.Fatalf("%+v, %v", trace, err)
	}
	spec := elastic.For(modelspec.ClassLLM, modelspec.WorkloadOnline, 8)
	spec.Min, spec.Idle = 0, 5*time.Minute
	r, err := simulate.Run(trace, simulate.DefaultModel(modelspec.ClassLLM), simulate.Policy{Name: "sleepy", Spec: spec, Period: 5 * time.Second})
	if err != nil || r.ColdStarts != 2 || r.Late != 3 || r.GPUHours > 0.2 {
		t.Errorf("slept: %+v, %v", r, err)
	}
	spec.Min = 1
	warm, err := simulate.Run(trace, simulate.DefaultModel(modelspec.ClassLLM), simulate.Policy{Name: "warm", Spec: spec, Period: 5 * time.Second})
	if err != nil || warm.ColdStarts != 0 || warm.Late != 0 || warm.GPUHours < 0.5 {
		t.Errorf("warm: %+v, %v", warm, err)
	}
	// Its engine stays loaded: the second wake-up takes no start.
	spec.Min = 0
	m := simulate.DefaultModel(modelspec.ClassLLM)
	m.Wake = time.Second
	asleep, err := simulate.Run(trace, m, simulate.Policy{Name: "asleep", Spec: spec, Asleep: 1, Period: 5 * time.Second})
	if err != nil || asleep.ColdStarts != 1 || asleep.Wakes != 1 || asleep.Late != 2 || asleep.GPUHours >= r.GPUHours {
		t.Errorf("asleep: %+v, %v", asleep, err)
	}
	var text strings.Builder
	if err := simulate.CSV(&text, []simulate.Result{asleep}); err != nil || !strings.Contains(text.String(), ",0,0,0,0,1,1,0\n") {
		t.Errorf("asleep, the timeline is %s, %v", text.String(), err)
	}
	// It sleeps, or it has its card.
	for _, p := range asleep.Timeline {
		if p.Asleep+p.Replicas > 1 || p.Asleep > 0 && p.Held > 0 {
			t.Errorf("one replica is both: %+v", p)
		}
	}
}

func TestRates(t *testing.T) {
	t.Parallel()
	const text = "timestamp_s,rate_rps,cv,pattern,param1,param2\n0,0,0,,0,0\n600,2,3,Gamma,1,1\n1200,0,0,,0,0\n"
	one, err := simulate.Read(strings.NewReader(text), 1, 1)
	if err != nil || len(one) < 600 || len(one) > 2400 || one[0].At < 600*time.Second || one[len(one)-1].At > 1200*time.Second {
		t.Errorf("%d arrivals for 1200, %v", len(one), err)
	}
	if same, _ := simulate.Read(strings.NewReader(text), 1, 1); !reflect.DeepEqual(one, same) {
		t.Error("the same seed drew other arrivals")
	}
	for _, bad := range []string{"", "a,b\n1,2\n", "timestamp_s,rate_rps,cv\n0,NaN,1\n", "timestamp_ms,input_length,output_length\n0,-1,2\n"} {
		if _, err := simulate.Read(strings.NewReader(bad), 1, 1); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
