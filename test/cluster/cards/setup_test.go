//go:build cluster

package cards

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"modeldock.io/test/cluster"
)

const (
	patience  = 2 * time.Minute
	namespace = "default"
)

// node is one node with its agent.
type node struct {
	*cluster.Node
	cards string // file
	args  []string
	agent *exec.Cmd
}

// card is a line of the agent's file of simulated cards.
type card struct {
	UUID    string `json:"uuid"`
	Index   int    `json:"index"`
	Total   int64  `json:"totalMiB"`
	Healthy bool   `json:"healthy"`
}

// startNode starts the agent of the i-th node with these cards.
func startNode(t *testing.T, i int, deliver string, cards []card) *node {
	t.Helper()
	n := &node{Node: ground.cluster.Nodes()[i]}
	n.cards = filepath.Join(ground.dir, n.Name+"-cards.json")
	n.write(t, cards)
	n.args = []string{
		"agent", "--node", n.Name, "--kubeconfig", ground.kubeconfig, "--ops-listen", "127.0.0.1:0", "--cards-file", n.cards, "--deliver", deliver,
		"--kubelet-dir", filepath.Dir(n.DevicePluginDir()), "--cdi-dir", n.CDIDir(),
	}
	n.startAgent(t)
	t.Cleanup(func() { n.killAgent() })
	return n
}

func (n *node) write(t *testing.T, cards []card) {
	t.Helper()
	text, err := json.Marshal(cards)
	if err == nil {
		err = os.WriteFile(n.cards+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(n.cards+".new", n.cards)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (n *node) log() string { return filepath.Join(ground.dir, n.Name+"-agent.log") }

func (n *node) startAgent(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(n.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }() // the agent has its own
	n.agent = exec.Command(ground.binary, n.args...)
	n.agent.Stdout, n.agent.Stderr = log, log
	if err := n.agent.Start(); err != nil {
		t.Fatal(err)
	}
}

// killAgent ends it as a crash would.
func (n *node) killAgent() {
	_ = n.agent.Process.Kill()
	_ = n.agent.Wait() // how it ended is known
}

// eventually waits, and tells what it saw last and the agent's log if in vain.
func (n *node) eventually(t *testing.T, what string, is func() (bool, any)) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		ok, seen := is()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(n.log())
			t.Fatalf("it never came that %s; last seen: %+v\nthe agent's log:\n%s", what, seen, log)
		}
	}
}

// object is the Node object.
func (n *node) object(t *testing.T) *corev1.Node {
	t.Helper()
	object, err := ground.client.CoreV1().Nodes().Get(t.Context(), n.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// pod is one container that shows what it was told.
func pod(name string, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: corev1.PodSpec{
			DNSPolicy:                     corev1.DNSDefault,
			TerminationGracePeriodSeconds: new(int64(1)),
			Containers:                    []corev1.Container{{Name: "engine", Image: image, ImagePullPolicy: corev1.PullNever}},
		},
	}
	change(p)
	return p
}

func create(t *testing.T, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	made, err := ground.client.CoreV1().Pods(namespace).Create(t.Context(), p, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = ground.cluster.Kubectl(context.Background(), "delete", "pod", p.Name, "--ignore-not-found", "--wait=false")
	})
	return made
}

func get(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	p, err := ground.client.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func remove(t *testing.T, name string) {
	t.Helper()
	if err := ground.client.CoreV1().Pods(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// sees is what the container of a running Pod was told.
func (n *node) sees(t *testing.T, name string) map[string]string {
	t.Helper()
	var told map[string]string
	n.eventually(t, "the container of "+name+" speaks", func() (bool, any) {
		p := get(t, name)
		if p.Status.Phase != corev1.PodRunning {
			return false, p.Status
		}
		logs, err := ground.client.CoreV1().Pods(namespace).GetLogs(name, &corev1.PodLogOptions{}).Stream(t.Context())
		if err != nil {
			return false, err
		}
		defer func() { _ = logs.Close() }()
		text, err := io.ReadAll(logs)
		if err == nil {
			err = json.Unmarshal([]byte(strings.TrimSpace(string(text))), &told)
		}
		return err == nil, fmt.Sprintf("%s (%v)", text, err)
	})
	return told
}

func (n *node) mustSee(t *testing.T, name, card string) {
	t.Helper()
	want := map[string]string{"MODELDOCK_CARD": card, "NVIDIA_VISIBLE_DEVICES": card}
	if got := n.sees(t, name); !maps.Equal(got, want) {
		t.Errorf("the container of %s was told %v, and decided was %s", name, got, card)
	}
}
