// Package hpaparity drives the real HorizontalPodAutoscaler controller through
// metric series and records what it decides, step for step. It is a module of
// its own because it needs all of k8s.io/kubernetes. `go test . -write` makes
// internal/elastic/testdata/hpa.jsonl anew; without the flag it compares.
package hpaparity
