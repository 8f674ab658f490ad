// Package autoscaling tests ModelDock with the autoscalers of a real cluster:
// HorizontalPodAutoscalers fed by its metrics API, its own and those of people,
// and, with the tag keda (scripts/test.sh keda), KEDA fed by a real Prometheus.
package autoscaling
