//go:build cluster

package chart

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// variants are the values that choose what is rendered, in every combination.
func variants() (all [][]string) {
	for _, gpu := range []string{"none", "devicePlugin", "dra"} {
		for _, tls := range []string{"", "controller.tls.secretName=a,gateway.tls.secretName=b,gateway.service.port=443"} {
			for _, redis := range []string{"", "redis.secretName=r"} {
				for _, more := range []string{"", "serviceMonitor.enabled=true,serviceMonitor.labels.release=p", "networkPolicy.enabled=false,podDisruptionBudget.enabled=false,bootstrap.enabled=false,models.createNamespace=false"} {
					set := []string{"gpu.path=" + gpu}
					for _, s := range []string{tls, redis, more} {
						if s != "" {
							set = append(set, s)
						}
					}
					all = append(all, []string{"--set", strings.Join(set, ",")})
				}
			}
		}
	}
	return all
}

// Every variant is clean, names nothing twice, and mounts what it uses.
func TestEveryVariantRenders(t *testing.T) {
	t.Parallel()
	h := setup(t)
	for _, v := range variants() {
		t.Run(v[1], func(t *testing.T) {
			t.Parallel()
			if out, err := h.Run(t.Context(), append(append([]string{"lint", "--strict", Folder}, named...), v...)...); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			text, err := h.Run(t.Context(), append(append([]string{"template", "blue", Folder, "--namespace", "sys"}, named...), v...)...)
			if err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			for _, document := range strings.Split("\n"+text, "\n---") {
				var head struct {
					APIVersion, Kind string
					Metadata         metav1.ObjectMeta
				}
				if err := yaml.Unmarshal([]byte(document), &head); err != nil {
					t.Fatalf("%v in\n%s", err, document)
				}
				if head.Kind == "" {
					continue
				}
				name := fmt.Sprintf("%s %s/%s", head.Kind, head.Metadata.Namespace, head.Metadata.Name)
				if head.APIVersion == "" || head.Metadata.Name == "" || seen[name] {
					t.Errorf("%s is there twice, or incomplete", name)
				}
				seen[name] = true
			}
			for name, pod := range pods(t, h, v...) {
				volumes := map[string]bool{}
				for _, volume := range pod.Volumes {
					volumes[volume.Name] = true
				}
				for _, m := range pod.Containers[0].VolumeMounts {
					if !volumes[m.Name] {
						t.Errorf("%s mounts %s, which it does not have", name, m.Name)
					}
					delete(volumes, m.Name)
				}
				if len(volumes) > 0 {
					t.Errorf("%s has volumes that it does not mount: %v", name, volumes)
				}
			}
		})
	}
}

// pods are the Pods of Deployments and DaemonSets by component.
func pods(t *testing.T, h Helm, args ...string) map[string]corev1.PodSpec {
	t.Helper()
	found := map[string]corev1.PodSpec{}
	for _, d := range render[appsv1.Deployment](t, h, "Deployment", args...) {
		found[d.Labels["app.kubernetes.io/component"]] = d.Spec.Template.Spec
	}
	for _, d := range render[appsv1.DaemonSet](t, h, "DaemonSet", args...) {
		found[d.Labels["app.kubernetes.io/component"]] = d.Spec.Template.Spec
	}
	return found
}

// monitor is what is read of a ServiceMonitor, whose types are another project's.
type monitor struct {
	Kind, APIVersion string
	Metadata         metav1.ObjectMeta
	Spec             struct {
		Selector  metav1.LabelSelector
		Endpoints []struct {
			Port, Interval, Scheme string
			TLSConfig              map[string]bool
		}
	}
}

// Every process is scraped on its operations port, once, and nothing else is.
func TestEveryProcessIsScraped(t *testing.T) {
	t.Parallel()
	h := setup(t)
	for path, want := range map[string][]string{
		"none": {"controller", "gateway"}, "devicePlugin": {"agent", "controller", "gateway", "scheduler"}, "dra": {"agent", "controller", "gateway"},
	} {
		args := []string{"--set", "serviceMonitor.enabled=true,gpu.path=" + path}
		services, running := render[corev1.Service](t, h, "Service", args...), pods(t, h, args...)
		var scraped []string
		for _, m := range render[monitor](t, h, "ServiceMonitor", args...) {
			selector, err := metav1.LabelSelectorAsSelector(&m.Spec.Selector)
			if err != nil || len(m.Spec.Endpoints) != 1 {
				t.Fatalf("%s: %v, %+v", m.Metadata.Name, err, m.Spec)
			}
			for _, s := range services {
				if !selector.Matches(labels.Set(s.Labels)) {
					continue
				}
				component := s.Spec.Selector["app.kubernetes.io/component"]
				scraped = append(scraped, component)
				if !slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == m.Spec.Endpoints[0].Port }) ||
					!slices.ContainsFunc(running[component].Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.Name == "ops" }) {
					t.Errorf("%s of %s has no port ops", s.Name, component)
				}
				if (component == "scheduler") != (m.Spec.Endpoints[0].Scheme == "https") {
					t.Errorf("%s is scraped by %q", component, m.Spec.Endpoints[0].Scheme)
				}
			}
		}
		slices.Sort(scraped)
		if !slices.Equal(scraped, want) {
			t.Errorf("with %s, %v are scraped, want %v", path, scraped, want)
		}
		for component := range running {
			if !slices.Contains(want, component) {
				t.Errorf("%s is not scraped", component)
			}
		}
		policies := map[string]bool{}
		for _, p := range render[networkingv1.NetworkPolicy](t, h, "NetworkPolicy", args...) {
			policies[p.Spec.PodSelector.MatchLabels["app.kubernetes.io/component"]] = true
		}
		for _, component := range want {
			if !policies[component] {
				t.Errorf("nobody says who may reach %s", component)
			}
		}
	}
}

// A node that is drained takes one replica of each kind at most; where there is
// only one, it must be able to go.
func TestReplicasAreNotDrainedTogether(t *testing.T) {
	t.Parallel()
	h := setup(t)
	for set, want := range map[string][]string{
		"gpu.path=none":         {"controller", "gateway"},
		"gpu.path=dra":          {"controller", "gateway"},
		"gpu.path=devicePlugin": {"controller", "gateway", "scheduler"},
		"gpu.path=devicePlugin,gpu.scheduler.replicas=1,controller.replicas=1": {"gateway"},
		"podDisruptionBudget.enabled=false":                                    nil,
	} {
		var have []string
		for _, b := range render[policyv1.PodDisruptionBudget](t, h, "PodDisruptionBudget", "--set", set) {
			have = append(have, b.Spec.Selector.MatchLabels["app.kubernetes.io/component"])
			if b.Spec.MaxUnavailable.IntValue() != 1 || b.Spec.Selector.MatchLabels["app.kubernetes.io/instance"] != "blue" {
				t.Errorf("%s: %+v", b.Name, b.Spec)
			}
		}
		slices.Sort(have)
		if !slices.Equal(have, want) {
			t.Errorf("%s: %v, want %v", set, have, want)
		}
	}
}
