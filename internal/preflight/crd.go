package preflight

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	"modeldock.io/deploy"
)

// crdFile is the custom resource that this program works with.
const crdFile = "charts/modeldock/crds/modeldock.io_modelservices.yaml"

func decode(raw []byte, into any) error {
	if err := yaml.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("read an answer of the API server: %w", err)
	}
	return nil
}

// customResource compares the one that is installed with this program's. Helm
// never changes one that is there, so that an upgrade alone does not help.
func (k *inspector) customResource(ctx context.Context) {
	text, err := deploy.CRDs.ReadFile(crdFile)
	var ours, theirs apiextensionsv1.CustomResourceDefinition
	if err == nil {
		err = yaml.UnmarshalStrict(text, &ours)
	}
	if err != nil {
		k.add(checkVersion, Unknown, "this program's custom resource cannot be read: "+err.Error(), "")
		return
	}
	raw, err := k.client.Discovery().RESTClient().Get().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + ours.Name).DoRaw(ctx)
	if err == nil {
		err = decode(raw, &theirs)
	}
	const apply = "kubectl apply --server-side -f deploy/charts/modeldock/crds"
	switch {
	case apierrors.IsNotFound(err) && k.installed == "":
		k.add(checkReach, Pending, ours.Name+" is not there; helm install makes it", "")
		return
	case apierrors.IsNotFound(err):
		k.add(checkReach, Broken, ours.Name+" is not there although ModelDock is", apply)
		return
	case err != nil:
		k.add(checkReach, Unknown, ours.Name+" cannot be read: "+err.Error(), "look with an account that may read custom resource definitions")
		return
	}
	k.served(theirs)
	k.compare(ours, theirs, apply)
}

// served tells whether the API server takes objects of it.
func (k *inspector) served(crd apiextensionsv1.CustomResourceDefinition) {
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
			k.add(checkReach, OK, crd.Name+" is established", "")
			return
		}
	}
	k.add(checkReach, Broken, crd.Name+" is not established", "kubectl describe crd "+crd.Name)
}

func (k *inspector) compare(ours, theirs apiextensionsv1.CustomResourceDefinition, apply string) {
	known := map[string]apiextensionsv1.CustomResourceDefinitionVersion{}
	for _, v := range ours.Spec.Versions {
		known[v.Name] = v
	}
	for _, stored := range theirs.Status.StoredVersions {
		if _, ok := known[stored]; !ok {
			k.add("stored versions", Broken, fmt.Sprintf("objects may be stored as %s, which this program does not know", stored), "run the version of ModelDock that does, or rewrite the objects and take the version out of status.storedVersions")
			return
		}
	}
	k.add("stored versions", OK, few(theirs.Status.StoredVersions), "")
	for _, name := range slices.Sorted(maps.Keys(known)) {
		at := slices.IndexFunc(theirs.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == name && v.Served })
		if at < 0 {
			k.add(checkVersion, Broken, "the API server does not serve "+name, apply)
			continue
		}
		want, have := fieldsOf(known[name]), fieldsOf(theirs.Spec.Versions[at])
		lacking, beyond := without(want, have), without(have, want)
		switch {
		case len(lacking) > 0:
			k.add(checkVersion, Broken, fmt.Sprintf("%s lacks %d fields of this version, which the API server would drop: %s", name, len(lacking), few(lacking)), apply)
		case len(beyond) > 0:
			k.add(checkVersion, Warning, fmt.Sprintf("%s has %d fields that this program does not know: %s", name, len(beyond), few(beyond)), "a newer ModelDock made it; leave it as it is")
		default:
			k.add(checkVersion, OK, fmt.Sprintf("%s has the %d fields of this version", name, len(want)), "")
		}
	}
}

func fieldsOf(v apiextensionsv1.CustomResourceDefinitionVersion) map[string]bool {
	found := map[string]bool{}
	if v.Schema != nil && v.Schema.OpenAPIV3Schema != nil {
		walk(*v.Schema.OpenAPIV3Schema, "", found)
	}
	return found
}

func walk(p apiextensionsv1.JSONSchemaProps, at string, found map[string]bool) {
	for name, inner := range p.Properties {
		found[at+"."+name] = true
		walk(inner, at+"."+name, found)
	}
	if p.Items != nil && p.Items.Schema != nil {
		walk(*p.Items.Schema, at+"[]", found)
	}
	if p.AdditionalProperties != nil && p.AdditionalProperties.Schema != nil {
		walk(*p.AdditionalProperties.Schema, at+".*", found)
	}
}

// without lists what is in a and not in b.
func without(a, b map[string]bool) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if !b[name] {
			out = append(out, name)
		}
	}
	return out
}
