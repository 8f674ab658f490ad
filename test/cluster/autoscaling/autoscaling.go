// Package autoscaling tests ModelDock with the autoscalers of a real cluster:
// HorizontalPodAutoscalers fed by its metrics API, its own and those of people.
package autoscaling
