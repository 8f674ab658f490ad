// Command modeldock-scheduler is kube-scheduler with the plugin that places
// Pods by the memory of each GPU.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of the client
	_ "k8s.io/component-base/metrics/prometheus/version"  // metric of the version
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"modeldock.io/scheduler/gpumemory"
)

func main() {
	os.Exit(cli.Run(app.NewSchedulerCommand(app.WithPlugin(gpumemory.Name, gpumemory.New))))
}
