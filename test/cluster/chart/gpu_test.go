//go:build cluster

package chart

import (
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	"modeldock.io/deploy"
)

func gpuPath(path string, more ...string) []string {
	return append([]string{"--set", "gpu.path=" + path}, more...)
}

// argsOfContainer are the arguments of a Deployment's container.
func argsOfContainer(t *testing.T, h Helm, name string, args ...string) []string {
	t.Helper()
	for _, d := range render[appsv1.Deployment](t, h, "Deployment", args...) {
		if d.Name == name {
			return d.Spec.Template.Spec.Containers[0].Args
		}
	}
	return nil
}

// Without cards nothing of theirs is installed.
func TestNoCardsNoParts(t *testing.T) {
	t.Parallel()
	h := setup(t)
	if n := len(render[appsv1.DaemonSet](t, h, "DaemonSet")) + len(render[admissionv1.MutatingAdmissionPolicy](t, h, "MutatingAdmissionPolicy")) + len(render[admissionv1.ValidatingAdmissionPolicy](t, h, "ValidatingAdmissionPolicy")); n > 0 {
		t.Errorf("%d parts are there", n)
	}
	if args := argsOfContainer(t, h, "blue-modeldock-controller"); strings.Contains(strings.Join(args, " "), "--gpu") {
		t.Errorf("controllers are told %v", args)
	}
	if ns := render[corev1.Namespace](t, h, "Namespace"); len(ns) != 1 || ns[0].Labels["modeldock.io/tenants"] != "" {
		t.Errorf("the models' namespace: %+v", ns)
	}
}

func TestDevicePluginPath(t *testing.T) {
	t.Parallel()
	h := setup(t)
	with := gpuPath("devicePlugin", "--set", "redis.secretName=r,gpu.schedulerName=cards")
	controller := strings.Join(argsOfContainer(t, h, "blue-modeldock-controller", with...), " ")
	for _, flag := range []string{"--gpu=device-plugin", "--gpu-scheduler=cards", "--redis-url-file=", "--buffer-image=registry.k8s.io/pause:", "--buffer-priority-class=sys-blue-modeldock-buffer"} {
		if !strings.Contains(controller, flag) {
			t.Errorf("controllers are not told %s: %s", flag, controller)
		}
	}
	if classes := render[schedulingv1.PriorityClass](t, h, "PriorityClass", with...); len(classes) != 1 || classes[0].Name != "sys-blue-modeldock-buffer" || classes[0].Value >= 0 || classes[0].GlobalDefault {
		t.Errorf("priority classes: %+v", classes)
	}
	config := ""
	for _, m := range render[corev1.ConfigMap](t, h, "ConfigMap", with...) {
		config += m.Data["scheduler.yaml"]
	}
	for _, part := range []string{"schedulerName: cards\n", "resourceNamespace: sys,", "resourceName: blue-modeldock-scheduler}", "redisURLFile: /etc/modeldock/redis/url}"} {
		if !strings.Contains(config, part) {
			t.Errorf("the scheduler's configuration lacks %q:\n%s", part, config)
		}
	}
	text := ""
	names := map[string]bool{}
	for _, p := range render[admissionv1.ValidatingAdmissionPolicy](t, h, "ValidatingAdmissionPolicy", with...) {
		names[p.Name] = true
		for _, v := range p.Spec.Variables {
			text += v.Expression + "\n"
		}
	}
	for _, p := range render[admissionv1.MutatingAdmissionPolicy](t, h, "MutatingAdmissionPolicy", with...) {
		names[p.Name] = true
		for _, m := range p.Spec.Mutations {
			if m.JSONPatch != nil {
				text += m.JSONPatch.Expression + "\n"
			} else {
				text += m.ApplyConfiguration.Expression + "\n"
			}
		}
	}
	if len(names) != 7 || !names["sys-blue-modeldock-gpu-binding"] || !strings.Contains(text, "'system:serviceaccount:sys:blue-modeldock-scheduler'") || !strings.Contains(text, "schedulerName: 'cards'") {
		t.Errorf("the policies %v say\n%s", names, text)
	}
	for _, b := range render[admissionv1.ValidatingAdmissionPolicyBinding](t, h, "ValidatingAdmissionPolicyBinding", with...) {
		if !names[b.Spec.PolicyName] || len(b.Spec.ValidationActions) != 1 || b.Spec.ValidationActions[0] != admissionv1.Deny {
			t.Errorf("%s puts %s into force with %v", b.Name, b.Spec.PolicyName, b.Spec.ValidationActions)
		}
	}
	if ns := render[corev1.Namespace](t, h, "Namespace", with...); len(ns) != 1 {
		t.Errorf("%d namespaces", len(ns))
	} else if _, there := ns[0].Labels["modeldock.io/tenants"]; !there {
		t.Error("others may bind Pods in the models' namespace")
	}
	if n := len(render[resourceapi.DeviceClass](t, h, "DeviceClass", with...)); n > 0 {
		t.Error("a DeviceClass is made that nobody needs")
	}
}

// The size of chunks is one value, for agents, controllers and policies.
func TestChunksHaveOneSize(t *testing.T) {
	t.Parallel()
	h := setup(t)
	for size, with := range map[string][]string{"256": gpuPath("devicePlugin"), "512": gpuPath("devicePlugin", "--set", "gpu.chunkMiB=512")} {
		if args := argsOfContainer(t, h, "blue-modeldock-controller", with...); !slices.Contains(args, "--gpu-chunk-mib="+size) {
			t.Errorf("controllers are told %v, want chunks of %s MiB", args, size)
		}
		for _, d := range render[appsv1.DaemonSet](t, h, "DaemonSet", with...) {
			if args := d.Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--chunk-mib="+size) {
				t.Errorf("agents are told %v, want chunks of %s MiB", args, size)
			}
		}
		var said []string
		for _, p := range render[admissionv1.MutatingAdmissionPolicy](t, h, "MutatingAdmissionPolicy", with...) {
			for _, v := range p.Spec.Variables {
				if v.Name == "gpuMemoryChunkMiB" {
					said = append(said, v.Expression)
				}
			}
		}
		if !slices.Equal(said, []string{size}) {
			t.Errorf("the policies say %v, want chunks of %s MiB", said, size)
		}
	}
	for _, d := range render[appsv1.DaemonSet](t, h, "DaemonSet", gpuPath("dra")...) {
		if args := strings.Join(d.Spec.Template.Spec.Containers[0].Args, " "); strings.Contains(args, "chunk") {
			t.Errorf("agents that count nothing are told %s", args)
		}
	}
}

func TestClaimsPath(t *testing.T) {
	t.Parallel()
	h := setup(t)
	if args := strings.Join(argsOfContainer(t, h, "blue-modeldock-controller", gpuPath("dra")...), " "); !strings.Contains(args, "--gpu=dra") || strings.Contains(args, "--gpu-scheduler") {
		t.Errorf("controllers are told %s", args)
	}
	if argsOfContainer(t, h, "blue-modeldock-scheduler", gpuPath("dra")...) != nil {
		t.Error("a scheduler is there that nobody needs")
	}
	class := render[resourceapi.DeviceClass](t, h, "DeviceClass", gpuPath("dra")...)
	if len(class) != 1 || class[0].Name != "gpu.modeldock.io" {
		t.Errorf("classes: %+v", class)
	}
	var files []string
	for _, p := range render[admissionv1.ValidatingAdmissionPolicy](t, h, "ValidatingAdmissionPolicy", gpuPath("dra")...) {
		files = append(files, strings.TrimPrefix(p.Name, "sys-blue-modeldock-gpu-")+".yaml")
	}
	if len(files) != 1 || !slices.Contains(deploy.ClaimPolicies(), files[0]) {
		t.Errorf("the API server refuses by %v", files)
	}
}

// The agent runs as root on its node's folders, and may do nothing else.
func TestAgentIsConfined(t *testing.T) {
	t.Parallel()
	h := setup(t)
	for path, folders := range map[string][]string{
		"devicePlugin": {"/var/lib/kubelet/device-plugins", "/var/lib/kubelet/pod-resources"},
		"dra":          {"/var/lib/kubelet/plugins", "/var/lib/kubelet/plugins_registry", "/var/run/cdi"},
	} {
		sets := render[appsv1.DaemonSet](t, h, "DaemonSet", gpuPath(path, "--set", "gpu.agent.simulatedCards=2x24576")...)
		if len(sets) != 1 {
			t.Fatalf("%s: %d agents", path, len(sets))
		}
		pod := sets[0].Spec.Template.Spec
		c := pod.Containers[0]
		if s := c.SecurityContext; pod.HostNetwork || pod.HostPID || s.Privileged != nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || s.Capabilities.Drop[0] != "ALL" {
			t.Errorf("%s: %+v", path, s)
		}
		var mounted []string
		for _, v := range pod.Volumes {
			if v.HostPath != nil {
				mounted = append(mounted, v.HostPath.Path)
			}
		}
		if !slices.Equal(mounted, folders) {
			t.Errorf("%s: it reaches %v of the node, want %v", path, mounted, folders)
		}
		if !slices.Contains(c.Args, "--cards=2x24576") || slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "NVIDIA_VISIBLE_DEVICES" }) {
			t.Errorf("%s: with simulated cards it is told %v, %v", path, c.Args, c.Env)
		}
	}
}
