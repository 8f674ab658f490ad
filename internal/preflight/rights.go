package preflight

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"modeldock.io/deploy"
)

// Names in the manifests, which an installation replaces by its own.
const (
	manifestPrefix = "modeldock-"
	manifestSystem = "modeldock-system"
	manifestModels = "modeldock"
)

// Right is one verb on one kind of objects. An empty namespace is the whole
// cluster.
type Right struct{ Namespace, Group, Resource, Subresource, Verb string }

func (r Right) String() string {
	what := r.Resource
	if r.Subresource != "" {
		what += "/" + r.Subresource
	}
	if r.Group != "" {
		what += "." + r.Group
	}
	if r.Namespace != "" {
		what += " in " + r.Namespace
	}
	return r.Verb + " " + what
}

// withCards reports whether a file's rights are needed only where models ask for
// cards, which an installation does not tell.
func withCards(file string) bool {
	return file == "cards.yaml" || file == "claims.yaml" || file == "holders.yaml"
}

// Granted reads from the manifests of this program what each process needs in
// any installation, by the name of the process.
func Granted(system, models string) (map[string]map[Right]bool, error) {
	roles, subjects := map[string][]rbacv1.PolicyRule{}, map[string][]string{} // by kind/name of the role
	within := map[string]string{}
	err := fs.WalkDir(deploy.Rights, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || withCards(entry.Name()) {
			return err
		}
		text, err := fs.ReadFile(deploy.Rights, path)
		if err != nil {
			return err
		}
		return readRights(string(text), roles, subjects, within)
	})
	if err != nil {
		return nil, fmt.Errorf("read this program's rights: %w", err)
	}
	out := map[string]map[Right]bool{}
	for role, accounts := range subjects {
		namespace := map[string]string{manifestSystem: system, manifestModels: models}[within[role]]
		for _, account := range accounts {
			process := strings.TrimPrefix(account, manifestPrefix)
			if out[process] == nil {
				out[process] = map[Right]bool{}
			}
			for _, rule := range roles[role] {
				each(rule, namespace, func(r Right) { out[process][r] = true })
			}
		}
	}
	return out, nil
}

// readRights sorts the roles and bindings of one file.
func readRights(text string, roles map[string][]rbacv1.PolicyRule, subjects map[string][]string, within map[string]string) error {
	for _, document := range strings.Split(text, "\n---\n") {
		var head metav1.PartialObjectMetadata
		if err := yaml.Unmarshal([]byte(document), &head); err != nil {
			return err
		}
		switch head.Kind {
		case "ClusterRole", "Role":
			var role rbacv1.ClusterRole // a Role has the same rules
			if err := yaml.Unmarshal([]byte(document), &role); err != nil {
				return err
			}
			roles[head.Kind+"/"+head.Name] = role.Rules
		case "ClusterRoleBinding", "RoleBinding":
			var binding rbacv1.RoleBinding
			if err := yaml.Unmarshal([]byte(document), &binding); err != nil {
				return err
			}
			role := binding.RoleRef.Kind + "/" + binding.RoleRef.Name
			within[role] = binding.Namespace
			for _, s := range binding.Subjects {
				subjects[role] = append(subjects[role], s.Name)
			}
		}
	}
	return nil
}

func each(rule rbacv1.PolicyRule, namespace string, do func(Right)) {
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			name, sub, _ := strings.Cut(resource, "/")
			for _, verb := range rule.Verbs {
				do(Right{namespace, group, name, sub, verb})
			}
		}
	}
}

// Excessive are rights that no process needs: whoever has one of them can take
// the cluster over, or read what is none of its business.
func Excessive(system, models string) []Right {
	return []Right{
		{system, "", "secrets", "", "get"}, {system, "", "secrets", "", "list"}, {models, "", "secrets", "", "get"}, {models, "", "secrets", "", "list"},
		{models, "", "pods", "", "create"}, {models, "", "pods", "exec", "create"}, {models, "", "pods", "ephemeralcontainers", "update"}, {models, "", "pods", "proxy", "get"},
		{system, "apps", "deployments", "", "create"}, {system, "apps", "deployments", "", "patch"}, {system, "", "pods", "", "create"}, {"kube-system", "apps", "deployments", "", "create"}, {"kube-system", "", "pods", "", "delete"}, {"kube-system", "", "pods", "", "create"}, {"kube-system", "", "secrets", "", "get"},
		{system, "", "serviceaccounts", "token", "create"}, {"", "", "users", "", "impersonate"}, {"", "", "nodes", "proxy", "get"},
		{"", "rbac.authorization.k8s.io", "clusterroles", "", "bind"}, {"", "rbac.authorization.k8s.io", "clusterroles", "", "escalate"}, {"", "rbac.authorization.k8s.io", "clusterrolebindings", "", "create"},
		{"", "apiextensions.k8s.io", "customresourcedefinitions", "", "update"}, {"", "*", "*", "", "*"},
	}
}

// rights asks the API server whether each process may do what it has to.
func (k *inspector) rights(ctx context.Context) {
	needed, err := Granted(k.System, k.Namespace)
	if err != nil {
		k.add("manifests", Unknown, err.Error(), "")
		return
	}
	if k.Self != "" {
		rights, known := needed[k.Self]
		if !known {
			k.add(k.Self, Broken, fmt.Sprintf("there is no process %q; there are %s", k.Self, strings.Join(slices.Sorted(maps.Keys(needed)), ", ")), "name one of them by --self")
			return
		}
		k.process(ctx, k.Self, "", rights)
		return
	}
	for _, process := range slices.Sorted(maps.Keys(needed)) {
		account := k.name() + "-" + process
		_, err := k.client.CoreV1().ServiceAccounts(k.System).Get(ctx, account, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err) && k.installed == "":
			k.add(process, Pending, fmt.Sprintf("there is no ServiceAccount %s/%s; helm install makes it", k.System, account), "")
		case apierrors.IsNotFound(err):
			k.add(process, Pending, fmt.Sprintf("there is no ServiceAccount %s/%s; an upgrade makes it, if this process is to run", k.System, account), "")
		case err != nil:
			k.add(process, Unknown, fmt.Sprintf("ServiceAccount %s/%s cannot be read: %v", k.System, account, err), "look with an account that may read it")
		default:
			k.process(ctx, process, "system:serviceaccount:"+k.System+":"+account, needed[process])
		}
	}
}

// process looks at one of them; an empty user is the caller itself.
func (k *inspector) process(ctx context.Context, process, user string, needed map[Right]bool) {
	rights := slices.SortedFunc(maps.Keys(needed), func(a, b Right) int { return strings.Compare(a.String(), b.String()) })
	allowed, err := k.may(ctx, user, rights)
	if err != nil {
		k.add(process, Unknown, "its rights cannot be asked for: "+err.Error(), "look with an account that may create SubjectAccessReviews, or as the process itself with --self "+process)
		return
	}
	var lacking []string
	for i, r := range rights {
		if !allowed[i] {
			lacking = append(lacking, r.String())
		}
	}
	switch {
	case len(lacking) == 0:
		k.add(process, OK, fmt.Sprintf("has the %d rights that it needs", len(rights)), "")
	case k.installed != k.version && user != "":
		k.add(process, Pending, fmt.Sprintf("lacks %d of %d rights of this version, which the upgrade grants: %s", len(lacking), len(rights), few(lacking)), "if you manage rights yourself, apply deploy/charts/modeldock/rights before")
	default:
		k.add(process, Broken, fmt.Sprintf("lacks %d of %d rights: %s", len(lacking), len(rights), few(lacking)), "apply deploy/charts/modeldock/rights")
	}
	k.excess(ctx, process, user, needed)
}

func (k *inspector) excess(ctx context.Context, process, user string, needed map[Right]bool) {
	dangerous := slices.DeleteFunc(Excessive(k.System, k.Namespace), func(r Right) bool {
		evicts := process == "scheduler" && r.Resource == "pods" && r.Verb == "delete" // what is in the way of a higher priority
		return needed[r] || evicts
	})
	allowed, err := k.may(ctx, user, dangerous)
	if err != nil {
		return // said already
	}
	var beyond []string
	for i, r := range dangerous {
		if allowed[i] {
			beyond = append(beyond, r.String())
		}
	}
	if len(beyond) > 0 {
		k.add(process, Warning, "may do more than it needs: "+few(beyond), "take these rights from it; see docs/security.md")
	}
}

// may asks for many rights at once; the client itself keeps the pace.
func (k *inspector) may(ctx context.Context, user string, rights []Right) ([]bool, error) {
	allowed, errs := make([]bool, len(rights)), make([]error, len(rights))
	var all sync.WaitGroup
	for i, r := range rights {
		all.Go(func() { allowed[i], errs[i] = k.ask(ctx, user, r) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err // the others would say the same
		}
	}
	return allowed, nil
}

func (k *inspector) ask(ctx context.Context, user string, r Right) (bool, error) {
	what := &authorizationv1.ResourceAttributes{Namespace: r.Namespace, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Verb: r.Verb}
	if user == "" {
		review, err := k.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: what},
		}, metav1.CreateOptions{})
		if err != nil {
			return false, err
		}
		return review.Status.Allowed, nil
	}
	review, err := k.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: user, Groups: groupsOf(k.System), ResourceAttributes: what},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}

// groupsOf are what the API server puts every account of a namespace into.
func groupsOf(namespace string) []string {
	return []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}
}
