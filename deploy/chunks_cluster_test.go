//go:build cluster

package deploy_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"modeldock.io/deploy"
	"modeldock.io/internal/device/deviceplugin"
	"modeldock.io/test/apiserver"
)

const chunksOf256 = "name: gpuMemoryChunkMiB\n      expression: \"256\""

// withChunksOf512 is an API server whose policy counts in larger chunks.
func withChunksOf512(t *testing.T) *apiserver.Server {
	t.Helper()
	s, err := apiserver.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	text, err := fs.ReadFile(deploy.Policies, "charts/modeldock/policies/scheduling.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(text), chunksOf256) != 1 {
		t.Fatalf("the policy does not say once how large a chunk is:\n%s", text)
	}
	if err := applyTo(t.Context(), s, "the policy", strings.Replace(string(text), chunksOf256, strings.Replace(chunksOf256, "256", "512", 1), 1)); err != nil {
		t.Fatal(err)
	}
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenants"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "tenants", Name: "default"}},
	} {
		if err := s.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// The policy says in one place how large a chunk is, counts Pods by that, and
// an agent of another size is told so.
func TestChunksHaveOneSize(t *testing.T) {
	t.Parallel()
	for size, s := range map[int64]*apiserver.Server{256: server, 512: withChunksOf512(t)} {
		for _, c := range []struct {
			memory, count string
			want          int64
		}{
			{"10000", "2", 2 * (10000 / size)}, {"1536", "1", 1536 / size}, {"1535", "1", 1535 / size}, {"100", "3", 3}, {"99999999", "64", 64 * (99999999 / size)},
		} {
			if got := asks(t, s, c.memory, c.count); got != c.want {
				t.Errorf("%s MiB of %s cards are %d chunks of %d MiB, want %d", c.memory, c.count, got, size, c.want)
			}
		}
		typed, err := kubernetes.NewForConfig(s.REST)
		if err != nil {
			t.Fatal(err)
		}
		for _, agent := range []int64{256, 512} {
			err := deviceplugin.Agree(t.Context(), typed, agent)
			var differ *deviceplugin.DisagreeError
			if agent == size && err != nil || agent != size && (!errors.As(err, &differ) || !strings.Contains(err.Error(), "gpu.chunkMiB")) {
				t.Errorf("an agent with chunks of %d MiB is told %v by a policy of %d", agent, err, size)
			}
		}
	}
}

// asks is how many chunks a Pod's first container gets, once the policy acts.
func asks(t *testing.T, s *apiserver.Server, mib, cards string) int64 {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		p := newPod("asks", map[string]string{memory: mib, count: cards})
		err := s.Client.Create(context.WithoutCancel(t.Context()), p, &client.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		got := p.Spec.Containers[0].Resources.Limits["modeldock.io/gpu-memory"]
		if err == nil && !got.IsZero() {
			return got.Value()
		}
		if time.Now().After(deadline) {
			t.Fatalf("the policy does not act: %v", err)
		}
	}
}
