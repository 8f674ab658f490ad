package main

import "slices"

// compare takes the medians of both sides, and as the ratio the median of the
// rounds' own ratios: neighbours in time saw the same machine.
func compare[T any](name, unit string, ours, baseline []T, of func(T) float64, target float64, better string) result {
	var values, bases, ratios []float64
	for i := range ours {
		values, bases = append(values, of(ours[i])), append(bases, of(baseline[i]))
		ratios = append(ratios, of(ours[i])/of(baseline[i]))
	}
	return result{
		Name: name, Value: median(values), Unit: unit, Baseline: median(bases), Ratio: median(ratios), Target: target, Better: better,
	}
}

func median(v []float64) float64 { return quantile(v, 0.5) }

func quantile(v []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(v))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func itself(v float64) float64 { return v }
