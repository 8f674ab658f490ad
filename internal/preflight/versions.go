package preflight

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	labelName      = "app.kubernetes.io/name"
	labelInstance  = "app.kubernetes.io/instance"
	labelComponent = "app.kubernetes.io/component"
	labelVersion   = "app.kubernetes.io/version"
)

// versions looks at what runs. Neighbouring minor versions work together, so
// that they may be exchanged one by one; more is not tested.
func (k *inspector) versions(ctx context.Context) {
	list, err := k.client.AppsV1().Deployments(k.System).List(ctx, metav1.ListOptions{LabelSelector: labelName + "=modeldock," + labelInstance + "=" + k.Release})
	if err != nil {
		k.add("running", Unknown, "the Deployments of "+k.System+" cannot be listed: "+err.Error(), "look with an account that may list them")
		return
	}
	if len(list.Items) == 0 {
		k.add("running", Pending, fmt.Sprintf("release %s does not run in %s; this is a first installation", k.Release, k.System), "")
		return
	}
	running := map[string][]string{}
	for _, d := range list.Items {
		component, version := d.Labels[labelComponent], versionOf(d)
		running[version] = append(running[version], component)
		if k.installed == "" || component == "controller" {
			k.installed = version
		}
		if moving(d) {
			k.add("rollout", Warning, fmt.Sprintf("%s is being rolled out: %d of %d replicas are new, %d ready", component, d.Status.UpdatedReplicas, wanted(d), d.Status.ReadyReplicas), "wait until it has ended, or see kubectl rollout status")
		}
	}
	for _, version := range slices.Sorted(maps.Keys(running)) {
		status, message, next := skew(version, k.version)
		slices.Sort(running[version])
		k.add("running", status, strings.Join(running[version], ", ")+" "+version+": "+message, next)
	}
}

// versionOf is the image's tag, which may differ from the chart's own version.
func versionOf(d appsv1.Deployment) string {
	for _, c := range d.Spec.Template.Spec.Containers {
		image := c.Image[strings.LastIndex(c.Image, "/")+1:]
		image, _, _ = strings.Cut(image, "@")
		if _, tag, tagged := strings.Cut(image, ":"); tagged {
			return tag
		}
	}
	return d.Labels[labelVersion]
}

func wanted(d appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

func moving(d appsv1.Deployment) bool {
	s := d.Status
	return s.ObservedGeneration < d.Generation || s.UpdatedReplicas < wanted(d) || s.ReadyReplicas < wanted(d)
}

// skew judges an upgrade from one version to another.
func skew(from, to string) (status Status, message, next string) {
	a, known := minor(from)
	b, release := minor(to)
	switch {
	case !known || !release:
		return OK, "no two releases to compare (this is " + to + ")", ""
	case a == b:
		return OK, "the same minor version as this program, " + to, ""
	case a[0] == b[0] && a[1]+1 == b[1]:
		return OK, "one minor version before this program, " + to + "; both may run at once", ""
	case less(b, a):
		return Warning, "newer than this program, " + to, "an older program refuses a newer schema: go back only with a backup made before the upgrade"
	}
	return Warning, "more than one minor version before this program, " + to, "the two must not run side by side: upgrade one minor version after the other, or stop the old controllers and gateways first"
}
