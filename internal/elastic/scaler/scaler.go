// Package scaler keeps models at the number of replicas that their load asks
// for (delivery account): it gathers the signals, asks elastic.Decide, has the
// ledger pay before it grows, and writes what is wanted into the object. It
// wakes models that sleep and has idle ones make room on a full card.
//
// It may be killed at any point: a count that was paid for and not written is
// written, or given back, by the next round.
package scaler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/elastic"
	"modeldock.io/internal/modelspec"
	"modeldock.io/internal/traffic"
)

// Ledger pays for replicas.
type Ledger interface {
	List(ctx context.Context, f budget.Filter) ([]budget.Reservation, error)
	Get(ctx context.Context, ref budget.Ref) (budget.Reservation, error)
	Grow(ctx context.Context, ref budget.Ref, replicas int) (budget.Reservation, error)
	Shrink(ctx context.Context, ref budget.Ref, replicas int) (budget.Reservation, error)
	Pools(ctx context.Context) ([]budget.Pool, error)
	KeepWarmDay(ctx context.Context, pool, day string) error
}

// Target runs them.
type Target interface {
	Observe(ctx context.Context, ref budget.Ref) (delivery.Status, error)
	List(ctx context.Context) ([]delivery.Status, error)
	delivery.Scalable
}

// Loads is what all gateways together know at one moment.
type Loads struct {
	Of map[budget.Ref]traffic.Load
	// Unheard are the gateways that were not heard; nothing shrinks then.
	Unheard []string
}

// Card is a card whose memory models share.
type Card struct {
	UUID        string
	Node        string
	TotalMiB    int64
	FreeMiB     int64 // that a new replica may take
	MeasuredMiB int64 // in use; 0: not measured
	Holders     []Holder
}

// Holder is a replica on a card.
type Holder struct {
	Replica string // UID
	MiB     int64
}

// Config is what a scaler works with. Ledger, Target and Loads are required.
type Config struct {
	Ledger Ledger
	Target Target
	Loads  func(ctx context.Context) (Loads, error)
	// Cards lets idle models make room for one that wakes; nil: they do not.
	Cards func(ctx context.Context) ([]Card, error)
	// Buffers has room kept for so many replicas, none for whatever is not
	// named, and tells of how many there is room now; nil: there is no cluster.
	Buffers func(ctx context.Context, want []Buffer) ([]int, error)
	// Concurrency is how many requests a replica serves at once; 0: not known.
	Concurrency func(modelspec.Model) int
	Doubt       *delivery.Doubt
	Period      time.Duration // between two rounds; 0: DefaultPeriod
	Residence   time.Duration // that a model has its card at least; 0: elastic.MinResidence
	Clock       func() time.Time
	Logger      *slog.Logger
	Metrics     *Metrics // nil: none
}

// ErrUnread says that what runs cannot be read now: a controller has just
// started, or its API server is away.
var ErrUnread = errors.New("what runs cannot be read")

// DefaultPeriod is the pause between two rounds.
const DefaultPeriod = 2 * time.Second

// breath is the least pause between two rounds: hints come in bursts.
const breath = 100 * time.Millisecond

// Scaler decides for all models of a ledger.
type Scaler struct {
	cfg   Config
	hurry chan struct{}
	warm  warmPools
	// nothing says that the latest round found no model that can be scaled.
	nothing atomic.Bool

	mu     sync.Mutex
	models map[budget.Ref]*model
}

// model is what the scaler knows of one. Its lock is held while it is decided
// for, so that a wake waits for that one model at most.
type model struct {
	mu      sync.Mutex
	history elastic.History
	begun   bool               // history is
	known   time.Time          // the latest step that history has, by the second
	last    elastic.Decision   // the latest
	note    string             // of making room
	ladder  elastic.Ladder     // how long replicas take to serve, as last measured, and where they stand
	idle    map[string]float64 // least share of memory since a replica was ready, by UID

	kept    time.Time          // since when it runs for its pool alone; zero: it does not
	noRoom  time.Time          // until when it is not woken before anybody asks
	awaited time.Time          // since when the first caller after a pause waits; zero: none does
	noticed time.Time          // when that was seen
	waits   elastic.Activation // how that caller found it
	counted time.Time          // the last wake that was
}

func newModel() *model { return &model{idle: map[string]float64{}} }

// New returns a scaler; Run starts it.
func New(cfg Config) *Scaler {
	if cfg.Period <= 0 {
		cfg.Period = DefaultPeriod
	}
	if cfg.Residence <= 0 {
		cfg.Residence = elastic.MinResidence
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Concurrency == nil {
		cfg.Concurrency = func(modelspec.Model) int { return 0 }
	}
	return &Scaler{cfg: cfg, hurry: make(chan struct{}, 1), models: map[budget.Ref]*model{}, warm: warmPools{of: map[string]*warmPool{}}}
}

// Run makes rounds until ctx ends: every period, and sooner on every wake.
func (s *Scaler) Run(ctx context.Context, wake <-chan struct{}) {
	tick := time.NewTicker(s.cfg.Period)
	defer tick.Stop()
	defer s.lastDays(ctx)
	for {
		began := time.Now()
		if err := s.Round(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Logger.Warn("a round of scaling failed; the counts stay as they are, and it is repeated", "in", s.cfg.Period, "error", err)
		}
		// While much happens, rounds take a tenth of the time at most, and
		// where nothing can be scaled, hints say nothing.
		pause := min(max(breath, 9*time.Since(began)), s.cfg.Period)
		if s.nothing.Load() {
			pause = s.cfg.Period
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-wake:
		case <-s.hurry:
		}
	}
}

// soon asks for a round before its time.
func (s *Scaler) soon() {
	select {
	case s.hurry <- struct{}{}:
	default:
	}
}

func (s *Scaler) model(ref budget.Ref) *model {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.models[ref]
	if m == nil {
		m = newModel()
		s.models[ref] = m
	}
	return m
}

func (s *Scaler) keep(live map[budget.Ref]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ref := range s.models {
		if !live[ref] {
			delete(s.models, ref)
		}
	}
}

// Wake asks for a replica of a model that sleeps: a caller waits for it. Any
// number of gateways and processes may ask; whoever comes first does it. A
// model that is awake gets its round sooner, because it may need room.
func (s *Scaler) Wake(ctx context.Context, w traffic.Wake) error {
	done, ok := s.cfg.Doubt.Begin()
	if !ok {
		return fmt.Errorf("wake %s/%s: %s", w.Owner, w.Model, s.cfg.Doubt.Why())
	}
	defer done()
	ref := budget.Ref{Tenant: w.Owner, ID: w.RequestID}
	m := s.model(ref)
	m.mu.Lock()
	defer m.mu.Unlock()
	st, err := s.cfg.Target.Observe(ctx, ref)
	if err != nil {
		return fmt.Errorf("wake %s/%s: %w", w.Owner, w.Model, err)
	}
	defer s.soon()
	if !st.Asleep() || w.ObjectUID != "" && w.ObjectUID != st.Object.UID {
		return nil
	}
	r, err := s.cfg.Ledger.Get(ctx, ref)
	if err != nil {
		return fmt.Errorf("wake %s/%s: %w", w.Owner, w.Model, err)
	}
	if !s.mayWake(r) {
		return nil
	}
	now := s.cfg.Clock()
	m.begin(st, now)
	d := elastic.Decide(s.spec(r, m), elastic.Signals{Waiting: 1}, m.history, elastic.Budget{}, now)
	if err := s.write(ctx, m, r.Ref, st, d, nil); err != nil && !errors.Is(err, delivery.ErrScaled) {
		return fmt.Errorf("wake %s/%s: %w", w.Owner, w.Model, err)
	}
	return nil
}

// mayWake: between nothing and one replica it is always ModelDock that
// decides, unless a person does.
func (s *Scaler) mayWake(r budget.Reservation) bool {
	return r.State == budget.Reserved && r.ReleaseRequestedAt.IsZero() && !paused(r) && r.Model.Acts() != modelspec.ActuatorNone
}

func paused(r budget.Reservation) bool { return r.Model.Scaling != nil && r.Model.Scaling.Paused }

// spec is the policy of a model, fitted to how long its replicas take to start.
func (s *Scaler) spec(r budget.Reservation, m *model) elastic.Spec {
	l := m.ladder
	l.Places = r.Model.Asleep()
	return elastic.SpecFor(r.Model, s.cfg.Concurrency(r.Model), l)
}

// begin takes up the history where an earlier process left it: what was
// changed counts for the rates, and nothing shrinks for one down window. What
// other processes changed since counts as well: any of them may wake a model.
func (m *model) begin(st delivery.Status, now time.Time) {
	if !m.begun {
		m.begun, m.history = true, elastic.History{Since: now}
		if n := len(st.Scaling); n > 0 && st.Asked > 0 && forThePool(st.Scaling[n-1].Reason) {
			m.kept = st.Scaling[n-1].At
		}
	}
	for _, step := range st.Scaling {
		if !byTheSecond(step.At).After(m.known) {
			continue
		}
		switch by := step.To - step.From; {
		case by > 0:
			m.history.Ups = append(slices.Clone(m.history.Ups), elastic.Change{At: step.At, By: by})
		case by < 0:
			m.history.Downs = append(slices.Clone(m.history.Downs), elastic.Change{At: step.At, By: -by})
		}
	}
	if n := len(st.Scaling); n > 0 {
		m.knows(st.Scaling[n-1].At)
	}
}

// knows notes that history has the steps until at.
func (m *model) knows(at time.Time) {
	if at = byTheSecond(at); at.After(m.known) {
		m.known = at
	}
}

// byTheSecond is a moment as every target tells it.
func byTheSecond(at time.Time) time.Time { return at.Truncate(time.Second) }
