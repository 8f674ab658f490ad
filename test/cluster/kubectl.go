package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fieldManager owns the fields of what Apply applies.
const fieldManager = "cluster-setup"

// KubectlPath is the kubectl that fits the cluster.
func (c *Cluster) KubectlPath() string { return c.programs["kubectl"] }

// Kubectl runs kubectl as the admin and returns what it prints.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.kubectl(ctx, "", args...)
}

// Apply applies manifests (YAML documents) and leaves waiting to the caller.
func (c *Cluster) Apply(ctx context.Context, manifests string) error {
	_, err := c.kubectl(ctx, manifests, "apply", "--server-side", "--force-conflicts", "--field-manager="+fieldManager, "-f", "-")
	return err
}

func (c *Cluster) kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, c.KubectlPath(), append([]string{"--kubeconfig", c.Kubeconfig()}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// waitServiceAccount waits until Pods can be made in the namespace.
func (c *Cluster) waitServiceAccount(ctx context.Context, namespace string) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	return waitFor(ctx, readyWait, func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("the namespace %s has no service account yet", namespace)
		}
		return err
	})
}
