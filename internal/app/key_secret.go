package app

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// KeepInSecret writes a keys.json into the Secret NAME of the system
// namespace, where an installation's owner finds it and no log has it.
func KeepInSecret(ctx context.Context, c Cluster, name string, document []byte) error {
	cfg, err := c.rest()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("make the client of the API server %s: %w", cfg.Host, err)
	}
	secrets := client.CoreV1().Secrets(c.System)
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.System, Name: name, Labels: map[string]string{"app.kubernetes.io/part-of": "modeldock"}},
		Data:       map[string][]byte{keysFile: document},
	}
	_, err = secrets.Create(ctx, s, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // of an attempt that failed, or of a ledger that is no more
		_, err = secrets.Update(ctx, s, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write Secret %s/%s: %w", c.System, name, err)
	}
	return nil
}
