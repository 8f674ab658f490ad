package app

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"modeldock.io/internal/delivery/operator"
	"modeldock.io/internal/device"
	"modeldock.io/internal/device/deviceplugin"
	"modeldock.io/internal/device/dra"
	"modeldock.io/internal/traffic/redislink"
)

// How cards are delivered to containers on a cluster.
const (
	deliverNone         = "none"
	deliverDevicePlugin = "device-plugin"
	deliverDRA          = "dra"
)

// AgentOptions are the flags of `modeldock agent`.
type AgentOptions struct {
	Node       string // its name on the cluster
	Kubeconfig string // empty: as kubectl does, or the Pod's own account
	OpsListen  string // health and metrics
	Insecure   bool   // listen beyond loopback
	Cards      string // simulated ones; empty: real ones only
	CardsFile  string // simulated ones from a file, instead of Cards
	Deliver    string
	Resource   string // that the device plugin counts
	ChunkMiB   int64
	KubeletDir string
	CDIDir     string
	NVIDIAKind string // see dra.Config
	RedisURL   string // empty: the measured memory is not published. A secret
}

// DefaultAgentOptions are the defaults of every flag.
func DefaultAgentOptions() AgentOptions {
	return AgentOptions{
		Node: hostname(), OpsListen: "127.0.0.1:8085", Deliver: deliverDevicePlugin, Resource: deviceplugin.DefaultResource, ChunkMiB: deviceplugin.DefaultChunkMiB,
		KubeletDir: "/var/lib/kubelet", CDIDir: dra.DefaultCDIDir,
	}
}

// Validate returns every error at once, each saying what to write instead.
func (o AgentOptions) Validate() error {
	errs := []error{validateListen("--ops-listen", o.OpsListen, o.Insecure)}
	if o.Node == "" {
		errs = append(errs, errors.New("--node must be the node's name on the cluster"))
	}
	if o.Cards != "" && o.CardsFile != "" {
		errs = append(errs, errors.New("--cards and --cards-file both describe simulated cards; give one"))
	}
	if o.Cards != "" {
		if _, err := device.ParseCards(o.Node, o.Cards); err != nil {
			errs = append(errs, fmt.Errorf("--%w", err))
		}
	}
	if ways := []string{deliverNone, deliverDevicePlugin, deliverDRA}; !slices.Contains(ways, o.Deliver) {
		errs = append(errs, fmt.Errorf("--deliver must be one of %s; got %q", strings.Join(ways, ", "), o.Deliver))
	}
	if o.ChunkMiB < 1 {
		errs = append(errs, fmt.Errorf("--chunk-mib must be at least 1; got %d", o.ChunkMiB))
	}
	if !strings.Contains(o.Resource, "/") {
		errs = append(errs, fmt.Errorf("--resource must be a name with a domain, such as %s; got %q", deviceplugin.DefaultResource, o.Resource))
	}
	if !filepath.IsAbs(o.KubeletDir) || !filepath.IsAbs(o.CDIDir) {
		errs = append(errs, fmt.Errorf("--kubelet-dir and --cdi-dir must be absolute paths; got %q and %q", o.KubeletDir, o.CDIDir))
	}
	if o.RedisURL != "" {
		if _, err := redislink.Parse(o.RedisURL); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// GPUOptions say how Pods of models ask for cards.
type GPUOptions struct {
	Deliver   string
	Scheduler string // of Pods that ask for cards; empty: the cluster's default
	ChunkMiB  int64  // as the agents count
	RedisURL  string // where agents publish the memory in use, to be shown; empty: nowhere. A secret
	// Of Pods that keep room for replicas of a pool; an empty image: none do.
	BufferImage         string
	BufferPriorityClass string
}

// DefaultGPUOptions ask for no card: on a cluster without agents nobody could
// give any.
func DefaultGPUOptions() GPUOptions {
	return GPUOptions{Deliver: deliverNone, ChunkMiB: deviceplugin.DefaultChunkMiB, BufferImage: "registry.k8s.io/pause:3.10.1", BufferPriorityClass: "modeldock-buffer"}
}

// Cards reports whether Pods ask for any.
func (o GPUOptions) Cards() bool { return o.Deliver != deliverNone }

func (o GPUOptions) validate() error {
	var errs []error
	if ways := []string{deliverNone, deliverDevicePlugin, deliverDRA}; !slices.Contains(ways, o.Deliver) {
		errs = append(errs, fmt.Errorf("--gpu must be one of %s; got %q", strings.Join(ways, ", "), o.Deliver))
	}
	if o.Scheduler != "" && o.Deliver == deliverNone {
		errs = append(errs, fmt.Errorf("--gpu-scheduler %s places Pods that ask for cards: add --gpu %s or --gpu %s", o.Scheduler, deliverDevicePlugin, deliverDRA))
	}
	if o.RedisURL != "" {
		if _, err := redislink.Parse(o.RedisURL); err != nil {
			errs = append(errs, err)
		}
	}
	if o.BufferImage != "" && o.BufferPriorityClass == "" {
		errs = append(errs, errors.New("--buffer-priority-class must name a PriorityClass below that of all other Pods, or what keeps room would keep them out; or give --buffer-image \"\""))
	}
	if o.ChunkMiB < 1 {
		errs = append(errs, fmt.Errorf("--gpu-chunk-mib must be at least 1; got %d", o.ChunkMiB))
	}
	return errors.Join(errs...)
}

func (o GPUOptions) operator() operator.GPU {
	modes := map[string]operator.GPUMode{deliverDevicePlugin: operator.GPUDevicePlugin, deliverDRA: operator.GPUDRA}
	return operator.GPU{Mode: modes[o.Deliver], SchedulerName: o.Scheduler, ChunkMiB: o.ChunkMiB}
}
