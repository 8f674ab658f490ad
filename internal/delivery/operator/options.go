package operator

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/modelspec"
)

// Image is the container image of an engine.
type Image struct {
	Reference string
	// Entrypoint says that the image's own entrypoint is the engine, so that
	// only arguments are passed; otherwise the preset's command is started.
	Entrypoint bool
}

// Options of the operator. The zero value works on any cluster.
type Options struct {
	// Images per engine, instead of or in addition to the defaults.
	Images          map[modelspec.Engine]Image
	ImagePullPolicy corev1.PullPolicy // empty: the API server's default
	// Requests of every engine container, beside its cards; nil: a little, so
	// that a model is not the first that a node under pressure evicts.
	Requests corev1.ResourceList
	GPU      GPU

	// DrainDelay is how long a replica that ends still serves, until every
	// gateway has heard of it. Default 5 s.
	DrainDelay time.Duration
	// LongestStream is how long running streams may take to finish once no new
	// ones come. Default 10 min.
	LongestStream time.Duration
	// StuckAfter is how long after the end of its grace period a Pod counts as
	// one that does not go away. Default 30 s.
	StuckAfter time.Duration
	// PullTime is added to an engine's load time until a rollout without
	// progress is reported. Default 10 min.
	PullTime time.Duration

	// LedgerLetsGo leaves the finalizer to delivery, which takes it away once the
	// ledger knows of the deletion. Without it, the operator does when nothing
	// that carried the object's UID is left.
	LedgerLetsGo bool

	// SpareCard tells whether one more replica fits beside those that run. nil
	// means that nobody knows, and a rollout then ends a replica before it
	// starts the next, which works on a full cluster, too.
	SpareCard func(*v1alpha1.ModelService) bool

	Resync  time.Duration // every object is looked at so often; default 1 min
	Workers int           // reconciles at once; default 16
	Now     func() time.Time
}

// User and group of engine containers: no account of any image.
const runAs int64 = 10001

func defaultImages() map[modelspec.Engine]Image {
	return map[modelspec.Engine]Image{
		modelspec.EngineSimulated: {Reference: "modeldock:latest", Entrypoint: true},
		modelspec.EngineLlamaCpp:  {Reference: "ghcr.io/ggml-org/llama.cpp:server-cuda", Entrypoint: true},
		modelspec.EngineOllama:    {Reference: "ollama/ollama:latest"},
		modelspec.EngineVLLM:      {Reference: "vllm/vllm-openai:latest"},
		modelspec.EngineSGLang:    {Reference: "lmsysorg/sglang:latest"},
	}
}

func (o Options) withDefaults() Options {
	images := defaultImages()
	for kind, image := range o.Images {
		images[kind] = image
	}
	o.Images = images
	if o.Requests == nil {
		o.Requests = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi"),
		}
	}
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{
		{&o.DrainDelay, 5 * time.Second}, {&o.LongestStream, 10 * time.Minute}, {&o.StuckAfter, 30 * time.Second},
		{&o.PullTime, 10 * time.Minute}, {&o.Resync, time.Minute},
	} {
		if *d.value == 0 {
			*d.value = d.standard
		}
	}
	if o.Workers == 0 {
		o.Workers = 16
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.GPU = o.GPU.withDefaults()
	return o
}

func (o Options) validate() error {
	for name, d := range map[string]time.Duration{
		"DrainDelay": o.DrainDelay, "LongestStream": o.LongestStream, "StuckAfter": o.StuckAfter,
		"PullTime": o.PullTime, "Resync": o.Resync,
	} {
		if d < time.Second {
			return fmt.Errorf("operator: %s is %v; it must be at least 1s", name, d)
		}
	}
	if o.Workers < 1 {
		return fmt.Errorf("operator: Workers is %d; it must be at least 1", o.Workers)
	}
	if o.Images[modelspec.EngineSimulated].Reference == "" {
		return errors.New("operator: the image of the simulated engine is empty; give the image that holds the modeldock binary")
	}
	return o.GPU.validate()
}
