package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"modeldock.io/internal/api"
	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/budget"
	deliverykube "modeldock.io/internal/delivery/kube"
	"modeldock.io/internal/delivery/operator"
	"modeldock.io/internal/delivery/remote"
	"modeldock.io/internal/kube"
	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/feed"
	routekube "modeldock.io/internal/traffic/route/kube"
)

// Cluster says which Kubernetes the models run on.
type Cluster struct {
	Enabled    bool
	Kubeconfig string // empty: KUBECONFIG, ~/.kube/config, or the Pod's own account
	Namespace  string // of the ModelServices
	System     string // namespace of what the controllers keep for themselves
}

// clusterLease leaves an API server some seconds to answer, and to be read
// back what became of a create; for as long, a killed relay's row is out of reach.
const clusterLease = 10 * time.Second

// DefaultNamespace is where ModelServices are made unless a flag says otherwise.
const DefaultNamespace = deliverykube.DefaultNamespace

// DefaultSystemNamespace is where the controllers' Lease and stamps are.
const DefaultSystemNamespace = "modeldock-system"

// rest finds the API server as kubectl does.
func (c Cluster) rest() (*rest.Config, error) { return kube.Config(c.Kubeconfig) }

// followEndpoints reads EndpointSlices of the ledger that the snapshots are of.
func (c Cluster) followEndpoints(ctx context.Context, snapshots *feed.Client, set func([]traffic.Endpoint), log *slog.Logger) error {
	cfg, err := c.rest()
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		ledger := snapshots.Ledger()
		if ledger == "" {
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond): // the first snapshot is on its way
			}
			continue
		}
		f, err := routekube.New(routekube.Config{REST: cfg, Namespace: c.Namespace, Ledger: ledger, Logger: log, OnChange: set})
		if err != nil {
			return err
		}
		one, another := context.WithCancel(ctx)
		go func() {
			defer another()
			for one.Err() == nil && snapshots.Ledger() == ledger {
				select {
				case <-one.Done():
				case <-time.After(time.Second):
				}
			}
		}()
		f.Run(one)
		another()
	}
	return nil
}

// clusterWorld is a Kubernetes cluster.
type clusterWorld struct {
	cluster Cluster
	cfg     *rest.Config
	client  *kubernetes.Clientset
	objects *deliverykube.Target
	kept    *configMapStamps
	cards   *clusterCards     // nil where Pods ask for none
	buffers *operator.Buffers // nil where no room can be kept
	changed func(budget.Ref)
}

func newClusterWorld(c Cluster, gpu GPUOptions, ledger string, clock func() time.Time, log *slog.Logger, registry prometheus.Registerer) (*clusterWorld, error) {
	cfg, err := c.rest()
	if err != nil {
		return nil, err
	}
	w := &clusterWorld{cluster: c, cfg: cfg, changed: func(budget.Ref) {}}
	// With client-go's own limit of 5 requests a second, deliveries would wait
	// for their stamps.
	if w.client, err = kubernetes.NewForConfig(kube.Configured(cfg, "modeldock-controller")); err != nil {
		return nil, fmt.Errorf("make the client of the API server %s: %w", cfg.Host, err)
	}
	w.kept = &configMapStamps{client: w.client, namespace: c.System, kept: map[string]int64{}}
	target := deliverykube.Config{
		REST: cfg, Ledger: ledger, Namespace: func(string) string { return c.Namespace }, Watched: c.Namespace,
		Clock: clock, Logger: log, OnChange: func(ref budget.Ref) { w.changed(ref) },
	}
	if gpu.Cards() {
		if w.cards, err = newClusterCards(cfg, gpu, clock, log, registry); err != nil {
			return nil, err
		}
		target.Cards = w.cards
		if w.buffers, err = newBuffers(c, cfg, gpu, ledger, log); err != nil {
			return nil, err
		}
	}
	w.objects, err = deliverykube.New(target)
	return w, err
}

func (w *clusterWorld) target() remote.Served { return w.objects }
func (w *clusterWorld) stamps() stampKeeper   { return w.kept }
func (w *clusterWorld) fleet() api.Fleet {
	if w.cards != nil {
		return w.cards
	}
	return clusterFleet{w.client}
}
func (w *clusterWorld) spare() spareCard {
	if w.cards == nil {
		return nil
	}
	return w.cards.spare
}

func (w *clusterWorld) informer() newInformer { return w.objects.Informer }
func (w *clusterWorld) views() []viewSource   { return nil }
func (w *clusterWorld) where() string {
	return "cluster " + w.cfg.Host + ", namespace " + w.cluster.Namespace
}
func (w *clusterWorld) noSleep() string {
	return "on Kubernetes a Pod holds its card for as long as it lives, asleep or not"
}
func (w *clusterWorld) noAutoscaler() string { return "" }
func (w *clusterWorld) lease() time.Duration { return clusterLease }
func (w *clusterWorld) close() error         { return nil }

func (w *clusterWorld) follow(ctx context.Context, changed func(budget.Ref)) error {
	w.changed = changed
	var all sync.WaitGroup
	if w.cards != nil {
		all.Go(func() { w.cards.run(ctx) })
	}
	w.objects.Run(ctx)
	all.Wait()
	return nil
}

// stampsName is the ConfigMap that keeps the ledger's highest journal number
// outside of its database, by incarnation.
const stampsName = "modeldock-ledger"

type configMapStamps struct {
	client    kubernetes.Interface
	namespace string

	mu   sync.Mutex       // one of this process writes; the others have it done for them
	kept map[string]int64 // at least this is there, by incarnation
}

func (s *configMapStamps) read(ctx context.Context, incarnation string) (int64, error) {
	m, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(ctx, stampsName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read ConfigMap %s/%s: %w", s.namespace, stampsName, err)
	}
	return stampIn(m, incarnation)
}

func stampIn(m *corev1.ConfigMap, incarnation string) (int64, error) {
	text, known := m.Data[incarnation]
	if !known {
		return 0, nil
	}
	seq, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read ConfigMap %s/%s: the journal number of %s is %q: it tells an older backup of the ledger from the newest; put the number back, or remove the entry if the ledger is the newest", m.Namespace, m.Name, incarnation, text)
	}
	return seq, nil
}

func (s *configMapStamps) raise(ctx context.Context, incarnation string, seq int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if have, known := s.kept[incarnation]; known && have >= seq {
		return nil
	}
	maps := s.client.CoreV1().ConfigMaps(s.namespace)
	err := retry.OnError(retry.DefaultBackoff, func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }, func() error {
		m, err := maps.Get(ctx, stampsName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			m = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: stampsName}, Data: map[string]string{incarnation: strconv.FormatInt(seq, 10)}}
			_, err = maps.Create(ctx, m, metav1.CreateOptions{})
			return err
		}
		if err != nil {
			return err
		}
		have, err := stampIn(m, incarnation)
		if err != nil || have >= seq {
			return err
		}
		if m.Data == nil {
			m.Data = map[string]string{}
		}
		m.Data[incarnation] = strconv.FormatInt(seq, 10)
		_, err = maps.Update(ctx, m, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("keep the ledger's journal number in ConfigMap %s/%s: %w", s.namespace, stampsName, err)
	}
	s.kept[incarnation] = seq
	return nil
}

// clusterFleet shows the nodes of a cluster whose Pods ask for no card.
type clusterFleet struct{ client kubernetes.Interface }

// Nodes implements api.Fleet.
func (f clusterFleet) Nodes(ctx context.Context) ([]openapi.Node, error) {
	list, err := f.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the cluster's nodes: %w", err)
	}
	nodes := make([]openapi.Node, 0, len(list.Items))
	for _, n := range list.Items {
		nodes = append(nodes, openapi.Node{Node: n.Name, Cards: []openapi.Card{}})
	}
	return nodes, nil
}

func (c Cluster) validate() error {
	if c.Enabled && (c.Namespace == "" || c.System == "") {
		return errors.New("--namespace and --system-namespace must not be empty")
	}
	return nil
}
