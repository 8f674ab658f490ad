package placement

import (
	"fmt"
	"slices"
	"strconv"

	"modeldock.io/internal/modelspec"
)

// Annotations of a Pod that asks for memory on cards.
const (
	MemoryAnnotation = "scheduler.ai/gpu-memory-mb" // MiB per card
	CountAnnotation  = "scheduler.ai/gpu-count"     // cards; absent: 1
	// What is preferred among cards that fit; absent: nothing beyond the rest.
	ClassAnnotation    = "scheduler.ai/gpu-class"    // llm, vision or recommender
	WorkloadAnnotation = "scheduler.ai/gpu-workload" // online or batch
)

// RequestAnnotations are all by which a Pod asks.
func RequestAnnotations() []string {
	return []string{MemoryAnnotation, CountAnnotation, ClassAnnotation, WorkloadAnnotation}
}

// FromAnnotations reads a request from a Pod's annotations. asked is false
// where they say nothing about cards. Constraints stay empty.
func FromAnnotations(annotations map[string]string) (r Request, asked bool, err error) {
	memory, hasMemory := annotations[MemoryAnnotation]
	count, hasCount := annotations[CountAnnotation]
	if !hasMemory && !hasCount {
		return Request{}, false, nil
	}
	if !hasMemory {
		return Request{}, true, fmt.Errorf("annotation %s is %q, but %s is missing: say how many MiB of each card are needed", CountAnnotation, count, MemoryAnnotation)
	}
	if r.MiB, err = ParseMemory(memory); err != nil {
		return Request{}, true, fmt.Errorf("annotation %s: %w", MemoryAnnotation, err)
	}
	r.Cards = 1
	if hasCount {
		if r.Cards, err = ParseCount(count); err != nil {
			return Request{}, true, fmt.Errorf("annotation %s: %w", CountAnnotation, err)
		}
	}
	if r.Class, err = oneOf(annotations, ClassAnnotation, modelspec.ClassLLM, modelspec.ClassVision, modelspec.ClassRecommender); err != nil {
		return Request{}, true, err
	}
	if r.Workload, err = oneOf(annotations, WorkloadAnnotation, modelspec.WorkloadOnline, modelspec.WorkloadBatch); err != nil {
		return Request{}, true, err
	}
	return r, true, nil
}

// oneOf reads a word that may be absent, and nothing but one that is known.
func oneOf[T ~string](annotations map[string]string, name string, known ...T) (T, error) {
	value, there := annotations[name]
	if there && !slices.Contains(known, T(value)) {
		return "", fmt.Errorf("annotation %s: %q is not one of %v; write one of them, or leave it out", name, shortened(value), known)
	}
	return T(value), nil
}

// ParseMemory reads MiB per card: decimal digits and nothing else, from 1 to
// an exbibyte, without leading zeros.
func ParseMemory(value string) (int64, error) {
	return parse(value, maxMiB, "an integer number of MiB", "8192")
}

// ParseCount reads a number of cards by the same rules.
func ParseCount(value string) (int, error) {
	n, err := parse(value, MaxCards, "an integer number of cards", "2")
	return int(n), err
}

func parse(value string, most int64, what, example string) (int64, error) {
	plain := value != "" && value[0] != '0'
	for i := range len(value) {
		plain = plain && value[i] >= '0' && value[i] <= '9'
	}
	// ParseInt also takes a sign and, for base 0, more; plain has ruled that out.
	n, err := strconv.ParseInt(value, 10, 64)
	if !plain || err != nil || n > most {
		return 0, fmt.Errorf("%q is not %s from 1 to %d, in digits without sign, unit or spaces; write for example %q", shortened(value), what, most, example)
	}
	return n, nil
}

// shortened keeps an absurdly long value out of events and logs.
func shortened(value string) string {
	if len(value) > 40 {
		return value[:40] + "…"
	}
	return value
}
