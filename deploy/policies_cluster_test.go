//go:build cluster

package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"modeldock.io/deploy"
	"modeldock.io/test/apiserver"
)

const (
	patience  = 90 * time.Second
	memory    = "scheduler.ai/gpu-memory-mb"
	count     = "scheduler.ai/gpu-count"
	class     = "scheduler.ai/gpu-class"
	workload  = "scheduler.ai/gpu-workload"
	card      = "scheduler.ai/gpu-device-uuid"
	variable  = "NVIDIA_VISIBLE_DEVICES"
	scheduler = "system:serviceaccount:modeldock-system:modeldock-scheduler"
)

// server has the policies in force before the first test.
var server *apiserver.Server

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	dir, err := os.MkdirTemp("", "modeldock-policies-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		server, err = apiserver.Start(dir)
	}
	if err == nil {
		err = furnish(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAIL: the policies need an API server:", err)
		code = 1
	} else {
		code = m.Run()
	}
	if server != nil {
		if err := server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "FAIL: stop the API server:", err)
			code = 1
		}
	}
	return code
}

// furnish applies what an installation has, and waits until it is in force.
func furnish(ctx context.Context) error {
	if err := applyText(ctx, "the namespace", deploy.System); err != nil {
		return err
	}
	rights, err := deploy.RightsOf("scheduler")
	if err == nil {
		err = applyText(ctx, "the scheduler's rights", rights)
	}
	if err == nil {
		err = apply(ctx, deploy.Policies)
	}
	if err != nil {
		return err
	}
	for _, name := range []string{"tenants", "others"} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if name == "tenants" {
			ns.Labels = map[string]string{"modeldock.io/tenants": ""}
		}
		if err := server.Client.Create(ctx, ns); err != nil {
			return fmt.Errorf("make the namespace %s: %w", name, err)
		}
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "default"}}
		if err := server.Client.Create(ctx, account); err != nil {
			return fmt.Errorf("make the account of %s: %w", name, err)
		}
	}
	deadline := time.Now().Add(patience)
	for {
		missing := notYet(ctx)
		if missing == "" {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not in force after %s: %s", patience, missing)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// notYet names a policy that does not act yet.
func notYet(ctx context.Context) string {
	dry := &client.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	bad := newPod("probe", map[string]string{memory: "4Gi"})
	if err := server.Client.Create(ctx, bad, dry); err == nil || !strings.Contains(err.Error(), "modeldock-gpu-request") {
		return fmt.Sprintf("modeldock-gpu-request: %v", err)
	}
	spoofed := newPod("probe", map[string]string{card: "GPU-1"})
	if err := server.Client.Create(ctx, spoofed, dry); err == nil || !strings.Contains(err.Error(), "modeldock-gpu-decision") {
		return fmt.Sprintf("modeldock-gpu-decision: %v", err)
	}
	good := newPod("probe", map[string]string{memory: "4096"})
	if err := server.Client.Create(ctx, good, dry); err != nil || good.Spec.SchedulerName != "modeldock-scheduler" {
		return fmt.Sprintf("modeldock-gpu-scheduling: %v, scheduler %s", err, good.Spec.SchedulerName)
	}
	plain := newPod("probe", nil)
	if err := server.Client.Create(ctx, plain, dry); err != nil || len(plain.Spec.Containers[0].Env) != 1 {
		return fmt.Sprintf("modeldock-gpu-void: %v, %v", err, plain.Spec.Containers[0].Env)
	}
	if reason := debugNotYet(ctx); reason != "" {
		return reason
	}
	if reason := statusNotYet(ctx); reason != "" {
		return reason
	}
	if err := server.Client.SubResource("binding").Create(ctx, plain, binding(map[string]string{card: "GPU-1"}), &client.SubResourceCreateOptions{}); err == nil || !strings.Contains(err.Error(), "modeldock-gpu-binding") {
		return fmt.Sprintf("modeldock-gpu-binding: %v", err)
	}
	return ""
}

// debugNotYet asks about a container that would be added to a Pod.
func debugNotYet(ctx context.Context) string {
	p := newPod("probed", nil)
	if err := server.Client.Create(ctx, p); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Sprintf("a Pod to be debugged: %v", err)
	}
	if err := server.Client.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
		return fmt.Sprintf("a Pod to be debugged: %v", err)
	}
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "probe", Image: "x"}}}
	dry := &client.SubResourceUpdateOptions{UpdateOptions: client.UpdateOptions{DryRun: []string{metav1.DryRunAll}}}
	if err := server.Client.SubResource("ephemeralcontainers").Update(ctx, p, dry); err != nil || len(p.Spec.EphemeralContainers) != 1 || len(p.Spec.EphemeralContainers[0].Env) != 1 {
		return fmt.Sprintf("modeldock-gpu-void-debug: %v, %+v", err, p.Spec.EphemeralContainers)
	}
	return ""
}

// statusNotYet asks about an annotation that would come with a status.
func statusNotYet(ctx context.Context) string {
	p := newPod("probed", nil)
	spoofed := p.DeepCopy()
	spoofed.Annotations = map[string]string{card: "GPU-1"}
	dry := &client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{DryRun: []string{metav1.DryRunAll}}}
	if err := server.Client.Status().Patch(ctx, spoofed, client.MergeFrom(p), dry); err == nil || !strings.Contains(err.Error(), "modeldock-gpu-status") {
		return fmt.Sprintf("modeldock-gpu-status: %v", err)
	}
	return ""
}

func apply(ctx context.Context, from fs.FS) error {
	return fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		return applyText(ctx, name, string(text))
	})
}

func applyText(ctx context.Context, name, text string) error {
	return applyTo(ctx, server, name, text)
}

func applyTo(ctx context.Context, to *apiserver.Server, name, text string) error {
	for dec := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096); ; {
		var u unstructured.Unstructured
		if err := dec.Decode(&u); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if err := to.Client.Create(ctx, &u); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("apply %s: %w", name, err)
		}
	}
}

func newPod(name string, annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenants", Name: name, Annotations: annotations},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "engine", Image: "x"}, {Name: "side", Image: "x"}}},
	}
}

func binding(annotations map[string]string) *corev1.Binding {
	return &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}
}

// wantDenied checks that a refusal names the policy and says what to do.
func wantDenied(t *testing.T, what string, err error, policy, message string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), policy) || !strings.Contains(err.Error(), message) {
		t.Errorf("%s: %v; want a refusal by %s that says %q", what, err, policy, message)
	}
}

func TestBadValuesAreDenied(t *testing.T) {
	t.Parallel()
	const says = "must be MiB per card, from 1 to 99999999, in digits"
	for _, value := range []string{"", "0", "-1", "4Gi", "1e4", " 4096", "4096 ", "4096.0", "0x10", "007", "+5", "999999999", "4096\n", "４０９６", "9223372036854775808"} {
		wantDenied(t, fmt.Sprintf("memory %q", value), server.Client.Create(t.Context(), newPod("bad", map[string]string{memory: value})), "modeldock-gpu-request", says)
	}
	for _, value := range []string{"", "0", "-1", "two", "1.0", "65", "1000"} {
		wantDenied(t, fmt.Sprintf("count %q", value), server.Client.Create(t.Context(), newPod("bad", map[string]string{memory: "4096", count: value})), "modeldock-gpu-request", "must be a number of cards")
	}
	wantDenied(t, "an unknown class", server.Client.Create(t.Context(), newPod("bad", map[string]string{memory: "4096", class: "LLM"})), "modeldock-gpu-request", "must be llm, vision or recommender")
	wantDenied(t, "an unknown workload", server.Client.Create(t.Context(), newPod("bad", map[string]string{memory: "4096", workload: ""})), "modeldock-gpu-request", "must be online or batch")
	wantDenied(t, "a count alone", server.Client.Create(t.Context(), newPod("bad", map[string]string{count: "2"})), "modeldock-gpu-request", says)
}

// A request gets scheduler and resource; what else the Pod says stays.
func TestRequestsAreCompleted(t *testing.T) {
	t.Parallel()
	p := newPod("complete", map[string]string{memory: "10000", count: "2"})
	p.Spec.SchedulerName = "mine"
	p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "b"}}
	if err := server.Client.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	first := p.Spec.Containers[0]
	if got := first.Resources.Limits["modeldock.io/gpu-memory"]; p.Spec.SchedulerName != "modeldock-scheduler" || got.Value() != 78 || len(first.Env) != 3 || len(p.Spec.Containers) != 2 {
		t.Errorf("scheduler %s, %s chunks, %+v", p.Spec.SchedulerName, got.String(), p.Spec.Containers)
	}
	small := newPod("small", map[string]string{memory: "100", count: "3"})
	if err := server.Client.Create(t.Context(), small); err != nil {
		t.Fatal(err)
	}
	if got := small.Spec.Containers[0].Resources.Limits["modeldock.io/gpu-memory"]; got.Value() != 3 {
		t.Errorf("less than a chunk of three cards asks for %s", got.String())
	}
	told := 0
	for _, e := range first.Env {
		if (e.Name == variable || e.Name == "MODELDOCK_CARD") && e.ValueFrom != nil && e.ValueFrom.FieldRef.FieldPath == "metadata.annotations['"+card+"']" {
			told++
		}
	}
	if told != 2 {
		t.Errorf("its first container is told of its card by %+v", first.Env)
	}
	if e := p.Spec.Containers[1].Env; len(e) != 1 || e[0].Name != variable || e[0].Value != "void" {
		t.Errorf("its second container has %+v", e)
	}
	plain := newPod("plain", nil)
	plain.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "x"}}
	plain.Spec.Containers[1].Env = []corev1.EnvVar{{Name: "A", Value: "b"}}
	if err := server.Client.Create(t.Context(), plain); err != nil {
		t.Fatal(err)
	}
	for _, c := range append(plain.Spec.InitContainers, plain.Spec.Containers...) {
		if last := c.Env[len(c.Env)-1]; last.Name != variable || last.Value != "void" {
			t.Errorf("%s of a Pod without cards has %+v", c.Name, c.Env)
		}
	}
	if plain.Spec.SchedulerName == "modeldock-scheduler" {
		t.Error("a Pod without cards was given to the scheduler of cards")
	}
}

func TestDecisionsAreNotForUsers(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	const policy = "modeldock-gpu-decision"
	wantDenied(t, "a decision at creation", server.Client.Create(ctx, newPod("spoof", map[string]string{memory: "1", card: "GPU-0"})), policy, "written by modeldock-scheduler alone")
	placed := newPod("spoof", map[string]string{memory: "1"})
	placed.Spec.NodeName = "n"
	wantDenied(t, "a node", server.Client.Create(ctx, placed), policy, "must not set spec.nodeName")
	for _, value := range []string{"all", "GPU-1", ""} {
		seeing := newPod("spoof", map[string]string{memory: "1"})
		seeing.Spec.Containers[1].Env = []corev1.EnvVar{{Name: variable, Value: value}}
		wantDenied(t, "a variable "+value, server.Client.Create(ctx, seeing), policy, variable+" must not be set")
	}
	initial := newPod("spoof", nil)
	initial.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "x", Env: []corev1.EnvVar{{Name: variable, Value: "all"}}}}
	wantDenied(t, "a variable of an init container", server.Client.Create(ctx, initial), policy, variable+" must not be set")
	// Where no tenants are, tools may look at every card, but no Pod with cards may.
	tool := newPod("tool", nil)
	tool.Namespace, tool.Spec.Containers[0].Env = "others", []corev1.EnvVar{{Name: variable, Value: "all"}}
	if err := server.Client.Create(ctx, tool); err != nil {
		t.Errorf("a tool where no tenants are: %v", err)
	}
	asking := newPod("spoof", map[string]string{memory: "1"})
	asking.Namespace, asking.Spec.Containers[0].Env = "others", tool.Spec.Containers[0].Env
	wantDenied(t, "a variable where no tenants are", server.Client.Create(ctx, asking), policy, variable+" must not be set")
	// The way that operators hand the decision over stays open.
	own := newPod("own", map[string]string{memory: "1"})
	own.Spec.Containers[0].Env = []corev1.EnvVar{{Name: variable, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + card + "']"}}}}
	if err := server.Client.Create(ctx, own); err != nil {
		t.Fatal(err)
	}
	edited := own.DeepCopy()
	edited.Annotations[card] = "GPU-0"
	wantDenied(t, "a decision by edit", server.Client.Patch(ctx, edited, client.MergeFrom(own)), policy, "written by modeldock-scheduler alone")
}

// Only the scheduler binds where tenants are, and only it decides on cards.
func TestBindings(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	const policy = "modeldock-gpu-binding"
	p := newPod("bound", map[string]string{memory: "4096"})
	if err := server.Client.Create(ctx, p); err != nil {
		t.Fatal(err)
	}
	bind := func(c client.Client, p *corev1.Pod, b *corev1.Binding) error {
		return c.SubResource("binding").Create(ctx, p, b, &client.SubResourceCreateOptions{})
	}
	wantDenied(t, "a Binding by an admin", bind(server.Client, p, binding(nil)), policy, "only modeldock-scheduler may bind Pods")
	wantDenied(t, "a decision by an admin", bind(server.Client, p, binding(map[string]string{card: "GPU-7"})), policy, "only modeldock-scheduler may decide")
	as := rest.CopyConfig(server.REST)
	as.Impersonate = rest.ImpersonationConfig{UserName: scheduler, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	typed, err := kubernetes.NewForConfig(as)
	if err != nil {
		t.Fatal(err)
	}
	b := binding(map[string]string{card: "GPU-7", "scheduler.ai/gpu-index": "7"})
	b.Name, b.Namespace, b.UID = p.Name, p.Namespace, p.UID
	if err := typed.CoreV1().Pods(p.Namespace).Bind(ctx, b, metav1.CreateOptions{}); err != nil {
		t.Fatalf("the scheduler's own: %v", err)
	}
	if err := server.Client.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil || p.Spec.NodeName != "n" || p.Annotations[card] != "GPU-7" {
		t.Errorf("bound to %q with %v, %v", p.Spec.NodeName, p.Annotations, err)
	}
	// What a Pod with cards counts stays what it was.
	edited := p.DeepCopy()
	edited.Annotations[memory] = "1"
	wantDenied(t, "less memory", server.Client.Patch(ctx, edited, client.MergeFrom(p)), "modeldock-gpu-request", "cannot be changed")
	edited = p.DeepCopy()
	delete(edited.Annotations, memory)
	wantDenied(t, "no memory", server.Client.Patch(ctx, edited, client.MergeFrom(p)), "modeldock-gpu-request", "must be MiB per card")
	for _, change := range []map[string]string{{memory: "1"}, {count: "2"}, {card: "GPU-0"}} {
		edited = p.DeepCopy()
		maps.Copy(edited.Annotations, change)
		wantDenied(t, fmt.Sprintf("%v with a status", change), server.Client.Status().Patch(ctx, edited, client.MergeFrom(p)), "modeldock-gpu-status", "cannot be changed with its status")
	}
	edited = p.DeepCopy()
	delete(edited.Annotations, memory)
	wantDenied(t, "no memory with a status", server.Client.Status().Patch(ctx, edited, client.MergeFrom(p)), "modeldock-gpu-status", "cannot be changed with its status")
	edited = p.DeepCopy()
	edited.Status.Message = "running"
	if err := server.Client.Status().Patch(ctx, edited, client.MergeFrom(p)); err != nil {
		t.Errorf("a status: %v", err)
	}
	edited = p.DeepCopy()
	edited.Labels = map[string]string{"a": "b"}
	if err := server.Client.Patch(ctx, edited, client.MergeFrom(p)); err != nil {
		t.Errorf("another label: %v", err)
	}
	// The scheduler may not patch Pods at all.
	if _, err := typed.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, "application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"c"}}}`), metav1.PatchOptions{}); err == nil {
		t.Error("the scheduler patches a Pod")
	}
	other := newPod("elsewhere", nil)
	other.Namespace = "others"
	if err := server.Client.Create(ctx, other); err != nil {
		t.Fatal(err)
	}
	wantDenied(t, "a request by a Binding", bind(server.Client, other, binding(map[string]string{memory: "1"})), policy, "only modeldock-scheduler may decide")
	wantDenied(t, "a count by a Binding", bind(server.Client, other, binding(map[string]string{count: "1"})), policy, "only modeldock-scheduler may decide")
	if err := bind(server.Client, other, binding(nil)); err != nil {
		t.Errorf("a Binding where no tenants are: %v", err)
	}
}

// A container that is added to a running Pod sees no card, whatever it says.
func TestDebugContainersSeeNoCard(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	p := newPod("debugged", map[string]string{memory: "4096"})
	if err := server.Client.Create(ctx, p); err != nil {
		t.Fatal(err)
	}
	add := func(c corev1.EphemeralContainerCommon) error {
		if err := server.Client.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, corev1.EphemeralContainer{EphemeralContainerCommon: c})
		return server.Client.SubResource("ephemeralcontainers").Update(ctx, p)
	}
	for _, name := range []string{"plain", "another"} { // the second leaves the first as it is
		if err := add(corev1.EphemeralContainerCommon{Name: name, Image: "x"}); err != nil {
			t.Fatal(err)
		}
		last := p.Spec.EphemeralContainers[len(p.Spec.EphemeralContainers)-1]
		if last.Name != name || len(last.Env) != 1 || last.Env[0].Name != variable || last.Env[0].Value != "void" {
			t.Errorf("%s: %+v", name, p.Spec.EphemeralContainers)
		}
	}
	for _, e := range []corev1.EnvVar{
		{Name: variable, Value: "all"},
		{Name: variable, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['other']"}}},
	} {
		wantDenied(t, "a variable of a debug container", add(corev1.EphemeralContainerCommon{Name: "spoof", Image: "x", Env: []corev1.EnvVar{e}}), "modeldock-gpu-decision", "it sees no card")
	}
}
