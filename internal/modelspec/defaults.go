package modelspec

// Defaults of contract: what a model gets where the request says nothing.
const (
	DefaultVersion             = "v1"
	DefaultGPUMemory           = 4096 // MiB
	DefaultWeight              = 100
	DefaultColdStartSeconds    = 120
	DefaultCacheSeconds        = 300
	DefaultColdStartMaxWaiting = 1000
)

// Default returns the model that a request without a model asks for: the
// simulated engine under the request's own id.
func Default(id string) Model {
	return Model{
		Name:      id,
		Version:   DefaultVersion,
		Class:     ClassLLM,
		Workload:  WorkloadOnline,
		Engine:    EngineSimulated,
		GPUMemory: DefaultGPUMemory,
		GPUs:      1,
		Replicas:  Replicas{Min: 1, Max: 1},
		Traffic:   Traffic{Weight: DefaultWeight},
		ColdStart: ColdStart{TimeoutSeconds: DefaultColdStartSeconds, MaxWaiting: DefaultColdStartMaxWaiting},
	}
}
