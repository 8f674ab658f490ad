package placement

import (
	"strings"
	"testing"

	"modeldock.io/internal/modelspec"
)

// C050, C052: only a plain positive integer is memory.
func TestParseMemory(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"", "0", "-5", "+8000", "0x10", "1.5", "8000Mi", "8Gi", "4Gi", " 8000", "8000 ", "1e3", "1e4", "八千", "８０００", "08000", "8_000", "8,000",
		"NaN", "Inf", "9223372036854775807", "9223372036854775808", "18446744073709551616", "1099511627777", strings.Repeat("9", 4000),
	} {
		n, err := ParseMemory(bad)
		if err == nil {
			t.Errorf("%q became %d MiB", bad, n)
			continue
		}
		if len(err.Error()) > 300 || !strings.Contains(err.Error(), "write for example") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	// What 32 bits would wrap is a number like any other; no card holds it.
	for in, want := range map[string]int64{
		"1": 1, "8000": 8000, "2147483648": 1 << 31, "4294967296": 1 << 32, "4294967297": 1<<32 + 1, "17179869184": 1 << 34, "1099511627776": 1 << 40,
	} {
		if n, err := ParseMemory(in); err != nil || n != want {
			t.Errorf("%q became %d (%v)", in, n, err)
			continue
		}
		if d, err := Place([]Node{node("n", 80_000)}, nil, Request{MiB: want, Cards: 1}, nil); want > 8000 && (err != nil || d.Fits()) {
			t.Errorf("%q was placed: %+v (%v)", in, d, err)
		}
	}
}

func TestFromAnnotations(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in    map[string]string
		want  Request
		asked bool
		err   string
	}{
		"nothing":       {map[string]string{"other": "1"}, Request{}, false, ""},
		"memory":        {map[string]string{MemoryAnnotation: "8000"}, Request{MiB: 8000, Cards: 1}, true, ""},
		"several cards": {map[string]string{MemoryAnnotation: "8000", CountAnnotation: "4"}, Request{MiB: 8000, Cards: 4}, true, ""},
		"bad memory":    {map[string]string{MemoryAnnotation: "8Gi"}, Request{}, true, `annotation scheduler.ai/gpu-memory-mb: "8Gi" is not`},
		"empty memory":  {map[string]string{MemoryAnnotation: ""}, Request{}, true, `annotation scheduler.ai/gpu-memory-mb: "" is not`},
		"bad count":     {map[string]string{MemoryAnnotation: "8000", CountAnnotation: "0"}, Request{}, true, `annotation scheduler.ai/gpu-count: "0" is not`},
		"many cards":    {map[string]string{MemoryAnnotation: "8000", CountAnnotation: "65"}, Request{}, true, "from 1 to 64"},
		"class":         {map[string]string{MemoryAnnotation: "8000", ClassAnnotation: "recommender", WorkloadAnnotation: "batch"}, Request{MiB: 8000, Cards: 1, Class: modelspec.ClassRecommender, Workload: modelspec.WorkloadBatch}, true, ""},
		"bad class":     {map[string]string{MemoryAnnotation: "8000", ClassAnnotation: "LLM"}, Request{}, true, `annotation scheduler.ai/gpu-class: "LLM" is not one of [llm vision recommender]`},
		"empty class":   {map[string]string{MemoryAnnotation: "8000", ClassAnnotation: ""}, Request{}, true, `annotation scheduler.ai/gpu-class: "" is not one of`},
		"bad workload":  {map[string]string{MemoryAnnotation: "8000", WorkloadAnnotation: "nightly"}, Request{}, true, `annotation scheduler.ai/gpu-workload: "nightly" is not one of [online batch]`},
		"class alone":   {map[string]string{ClassAnnotation: "llm"}, Request{}, false, ""},
		"count alone":   {map[string]string{CountAnnotation: "2"}, Request{}, true, "scheduler.ai/gpu-memory-mb is missing"},
	} {
		r, asked, err := FromAnnotations(c.in)
		if asked != c.asked || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: asked %v, %v", name, asked, err)
		}
		if err == nil && (r.MiB != c.want.MiB || r.Cards != c.want.Cards || r.Class != c.want.Class || r.Workload != c.want.Workload) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// Whatever is accepted is written as exactly that number.
func FuzzParseMemory(f *testing.F) {
	for _, s := range []string{"1", "8000", "0", "-1", "4Gi", "1e4", "99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseMemory(s)
		if err != nil {
			return
		}
		if n < 1 || n > maxMiB || strings.TrimLeft(s, "0123456789") != "" || len(s) > 13 {
			t.Fatalf("%q became %d", s, n)
		}
		var sum int64
		for _, digit := range s {
			sum = sum*10 + int64(digit-'0')
		}
		if sum != n {
			t.Fatalf("%q became %d", s, n)
		}
	})
}
