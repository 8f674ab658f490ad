// Package local is the delivery target of one machine (account 2): it runs
// the desired models as processes on this machine's cards, judges them by
// their own health and identity, and holds a card until the last process that
// was started for it is gone.
//
// Objects are records in DATA/objects. One loop compares them with what runs
// (Plan, which is pure) and does what is missing; one goroutine per replica
// follows its process.
package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/delivery/local/procfs"
	"modeldock.io/internal/device"
	"modeldock.io/internal/outage"
	"modeldock.io/internal/placement"
)

// Config is everything that the target needs from outside.
type Config struct {
	DataDir    string // made 0700; one running target at a time
	Executable string // the modeldock binary, for supervisors and the simulated engine
	Node       string // this machine's name
	Ledger     string // incarnation of the ledger whose objects are ours
	Inventory  device.Inventory
	Reserve    placement.Reserve // zero: placement.DefaultReserve
	Clock      func() time.Time  // nil: time.Now
	Logger     *slog.Logger      // nil: slog.Default
	Metrics    *Metrics          // nil: none

	// OnChange hears every changed status, also the last one with Exists
	// false. OnEndpoints hears the whole list of routable replicas whenever it
	// changes, and always before a replica on it is stopped. Both are called
	// from one goroutine and must not call the target's Close.
	OnChange    func(delivery.Status)
	OnEndpoints func([]Endpoint)
	// OnPlan hears from the same goroutine, after every round of planning, why
	// nothing can be placed on this machine; nil: it can.
	OnPlan func(error)
	// InFlight counts the requests that run on a replica, by its UID.
	InFlight func(uid string) int

	StopGrace time.Duration // for running requests before SIGTERM; 0: 30 s
	KillGrace time.Duration // between SIGTERM and SIGKILL; 0: 10 s
	AsleepMiB int64         // host memory that sleeping engines may take; 0: none sleeps
	// Memory is the machine's; nil: procfs.ReadMemory.
	Memory  func() (procfs.Memory, error)
	TempDir string // where engines get their own directories; empty: os.TempDir
}

// Endpoint is a ready replica that may be called.
type Endpoint struct {
	UID       string // of the replica
	Ref       budget.Ref
	ObjectUID string
	Model     string
	Version   string
	Address   string
	Upstream  string
	Node      string
	Card      string // uuid of the first card
	CardModel string
	Parallel  int // requests that the engine runs at once; 0: not known
	ReadyAt   time.Time
	UserID    int // whom its processes run as, see CheckEngine; 0: as ModelDock itself
}

// Target implements delivery.Target with processes.
type Target struct {
	cfg     Config
	log     *slog.Logger
	store   *objectStore
	runs    *runStore
	facts   *factStore
	users   *users
	scratch *scratch
	lock    *os.File

	mu        sync.Mutex
	objects   map[string]*object // by name
	foreign   map[string]record  // files of objects that are not ours
	cards     []device.Card
	samples   map[string]placement.Sample // by uuid; real cards only
	endpoints []Endpoint                  // as last published
	guardedAt time.Time
	prunedAt  time.Time
	closing   bool
	unplanned *outage.Log // rounds in which nothing could be placed

	wake    chan struct{}
	cancel  context.CancelFunc
	loops   sync.WaitGroup
	running sync.WaitGroup // one per run
}

// New prepares the data directory and loads the objects; nothing runs before
// Start. It fails if another process uses the data directory.
func New(cfg Config) (*Target, error) {
	cfg = withDefaults(cfg)
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	if err := os.Chmod(cfg.DataDir, 0o700); err != nil { //nolint:gosec // a directory needs its x bit
		return nil, fmt.Errorf("close the data directory to others: %w", err)
	}
	dir, err := filepath.Abs(cfg.DataDir)
	if err != nil {
		return nil, fmt.Errorf("resolve the data directory: %w", err)
	}
	if cfg.DataDir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, fmt.Errorf("resolve the data directory: %w", err)
	}
	// Weights that are copied there are opened by a path without links.
	if cfg.TempDir, err = filepath.EvalSymlinks(cfg.TempDir); err != nil {
		return nil, fmt.Errorf("resolve the directory for engines: %w", err)
	}
	lock, err := lockDir(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	t := &Target{
		cfg: cfg, log: cfg.Logger, lock: lock,
		objects: map[string]*object{}, foreign: map[string]record{},
		cards: cfg.Inventory.Cards,
		wake:  make(chan struct{}, 1),

		unplanned: outage.New(cfg.Logger, cfg.Clock, "nothing can be placed on this machine; it is tried again every second"),
	}
	if err := t.open(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return t, nil
}

func withDefaults(cfg Config) Config {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Reserve == (placement.Reserve{}) {
		cfg.Reserve = placement.DefaultReserve()
	}
	if cfg.StopGrace == 0 {
		cfg.StopGrace = 30 * time.Second
	}
	if cfg.KillGrace == 0 {
		cfg.KillGrace = 10 * time.Second
	}
	if cfg.OnChange == nil {
		cfg.OnChange = func(delivery.Status) {}
	}
	if cfg.OnEndpoints == nil {
		cfg.OnEndpoints = func([]Endpoint) {}
	}
	if cfg.OnPlan == nil {
		cfg.OnPlan = func(error) {}
	}
	if cfg.InFlight == nil {
		cfg.InFlight = func(string) int { return 0 }
	}
	if cfg.Memory == nil {
		cfg.Memory = procfs.ReadMemory
	}
	if cfg.TempDir == "" {
		cfg.TempDir = os.TempDir()
	}
	return cfg
}

func (t *Target) open() error {
	identity, err := openIdentity(t.cfg.DataDir)
	if err != nil {
		return err
	}
	if t.runs, err = openRuns(filepath.Join(t.cfg.DataDir, "runs"), identity); err != nil {
		return err
	}
	if t.users, err = openUsers(filepath.Join(t.cfg.DataDir, "uids.json")); err != nil {
		return err
	}
	t.scratch = newScratch(t.cfg.TempDir, identity)
	if t.store, err = openObjects(filepath.Join(t.cfg.DataDir, "objects")); err != nil {
		return err
	}
	if t.facts, err = openFacts(filepath.Join(t.cfg.DataDir, "facts")); err != nil {
		return err
	}
	records, err := t.store.Load()
	if err != nil {
		return err
	}
	t.sort(records)
	return nil
}

// sort tells our objects from those of other ledgers.
func (t *Target) sort(records map[string]record) {
	clear(t.foreign)
	for name, rec := range records {
		if rec.Owned(name, t.cfg.Ledger) {
			t.objects[name] = newObject(rec)
			t.objects[name].recall(t.facts)
			continue
		}
		t.foreign[name] = rec
		t.log.Warn("object is not ours and is left alone", "object", name, "ledger", rec.ledger())
	}
}

// Ledger is the incarnation of the ledger whose objects run here.
func (t *Target) Ledger() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cfg.Ledger
}

// Adopt makes the target run the objects of another ledger, which took the
// place of one that has none here.
func (t *Target) Adopt(ledger string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.objects); n > 0 {
		return fmt.Errorf("run the objects of ledger %s: %d objects of ledger %s are still here", ledger, n, t.cfg.Ledger)
	}
	records, err := t.store.Load()
	if err != nil {
		return fmt.Errorf("run the objects of ledger %s: %w", ledger, err)
	}
	t.cfg.Ledger = ledger
	t.sort(records)
	t.poke()
	return nil
}

// Start ends what an earlier run of ModelDock left behind and then keeps the
// objects running until Close.
func (t *Target) Start(ctx context.Context) error {
	if err := t.runs.Sweep(ctx, t.log); err != nil {
		return fmt.Errorf("end processes of an earlier run: %w", err)
	}
	if !t.cfg.Inventory.Simulated { // before anything is placed beside strangers
		if err := t.measure(ctx); err != nil {
			t.log.Warn("cannot read the cards; they are asked again soon", "err", err)
		}
	}
	loopCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	t.cancel = cancel
	t.loops.Go(func() { t.loop(loopCtx) })
	if !t.cfg.Inventory.Simulated {
		t.loops.Go(func() { t.followCards(loopCtx) })
	}
	return nil
}

// Close withdraws every endpoint, lets running requests finish within the
// grace, stops all processes and waits for the last one. When ctx ends first,
// what is left is killed. The objects stay and run again after the next Start.
func (t *Target) Close(ctx context.Context) error {
	t.mu.Lock()
	t.closing = true
	t.mu.Unlock()
	t.poke()
	gone := make(chan struct{})
	go func() { t.running.Wait(); close(gone) }()
	var err error
	select {
	case <-gone:
	case <-ctx.Done():
		t.killAll()
		select {
		case <-gone:
		case <-time.After(5 * time.Second):
			err = t.leftOver()
		}
	}
	if t.cancel != nil {
		t.cancel()
		t.loops.Wait()
	}
	if err == nil {
		t.scratch.Prune()
	}
	return errors.Join(err, t.lock.Close())
}

// leftOver says what keeps a closed target from ending.
func (t *Target) leftOver() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	processes, preparing := 0, 0
	for _, o := range t.objects {
		for _, s := range o.slots {
			switch {
			case s.run == nil:
			case s.run.proc != nil:
				processes++
			default:
				preparing++
			}
		}
	}
	if processes > 0 {
		return fmt.Errorf("close the local target: processes of %d replicas do not end even after SIGKILL; their cards stay taken until they do", processes)
	}
	return fmt.Errorf("close the local target: %d replicas are still being prepared, without a process", preparing)
}

func (t *Target) killAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.objects {
		for _, s := range o.slots {
			if s.run != nil {
				s.run.hurry()
			}
		}
	}
}

// poke makes the loop look now.
func (t *Target) poke() {
	select {
	case t.wake <- struct{}{}:
	default: // it will look anyway
	}
}

func (t *Target) now() time.Time { return t.cfg.Clock() }
