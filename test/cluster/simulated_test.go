package cluster

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// Simulated nodes carry cards and annotations, and take Pods that ask for them.
func TestSimulatedNodes(t *testing.T) {
	t.Parallel()
	const nodes, gpu, cards = 40, corev1.ResourceName("test.example/gpu"), "test.example/cards"
	c, client := setup(t, Options{ControlPlaneOnly: true})
	ctx := t.Context()
	template := NodeTemplate{Prefix: "gpu-", Resources: map[corev1.ResourceName]string{gpu: "8"}, Annotations: map[string]string{cards: "[80000]"}}
	if err := c.AddSimulatedNodes(ctx, nodes, template); err != nil {
		t.Fatal(err)
	}
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: SimulatedLabel})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != nodes {
		t.Errorf("there are %d simulated nodes, want %d", len(list.Items), nodes)
	}
	for _, node := range list.Items {
		if got := node.Status.Allocatable[gpu]; got.Value() != 8 || nodeReady(&node) != nil || node.Annotations[cards] != "[80000]" {
			t.Errorf("%s: %s of %s, annotations %v, %v", node.Name, got.String(), gpu, node.Annotations, nodeReady(&node))
		}
	}
	// Each Pod takes all cards of a node: one Pod too many stays pending.
	full := engineDeployment("model", nodes+1)
	spec := &full.Spec.Template.Spec
	spec.TopologySpreadConstraints = nil
	spec.Tolerations = []corev1.Toleration{{Key: SimulatedTaint, Operator: corev1.TolerationOpExists}}
	spec.Containers[0].Resources.Limits = corev1.ResourceList{gpu: list.Items[0].Status.Allocatable[gpu]}
	if _, err := client.AppsV1().Deployments("default").Create(ctx, full, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		d, err := client.AppsV1().Deployments("default").Get(ctx, "model", metav1.GetOptions{})
		if err == nil && d.Status.ReadyReplicas != nodes {
			err = fmt.Errorf("%d of %d replicas are Ready, want %d", d.Status.ReadyReplicas, nodes+1, nodes)
		}
		return err
	})
	if err := c.RemoveSimulatedNodes(ctx, nodes, "gpu-"); err != nil {
		t.Fatal(err)
	}
	if list, err = client.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Errorf("after their removal: %v, %d nodes", err, len(list.Items))
	}
}

// Users have the rights that RBAC gives their name, and no others.
func TestUsers(t *testing.T) {
	t.Parallel()
	c, client := setup(t, Options{ControlPlaneOnly: true})
	ctx := t.Context()
	if err := c.Apply(ctx, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: readers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "test:readers"}]
`); err != nil {
		t.Fatal(err)
	}
	path, err := c.AddUser("test:alice", "test:readers")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	alice, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}
	if _, err := client.CoreV1().ConfigMaps("default").Create(ctx, configMap, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// The authorizer sees a new binding a moment after it was made.
	eventually(t, func(ctx context.Context) error {
		_, err := alice.CoreV1().ConfigMaps("default").Get(ctx, "mine", metav1.GetOptions{})
		return err
	})
	if err := alice.CoreV1().ConfigMaps("default").Delete(ctx, "mine", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a reader deletes: %v, want a refusal", err)
	}
	// The store answers nobody without a certificate.
	store, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", c.at.etcd))
	if err != nil {
		t.Fatal(err)
	}
	_ = store.Close()
	if err := c.answers(loopback(c.at.etcd)+"/readyz", unverified())(ctx); err == nil {
		t.Error("etcd answers a client without a certificate")
	}
}

// A failed start says why, with the end of the log.
func TestFailedStartExplains(t *testing.T) {
	t.Parallel()
	c, err := Start(t.Context(), Options{ControlPlaneOnly: true, ExtraArgs: map[string][]string{APIServer: {"--no-such-flag"}}})
	if err == nil {
		t.Fatal(c.Stop())
	}
	if text := err.Error(); !strings.Contains(text, "start kube-apiserver: it ended: exit status 1") || !strings.Contains(text, "unknown flag: --no-such-flag") {
		t.Errorf("the error does not explain itself: %v", err)
	}
}
