package redismeasured

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"modeldock.io/internal/device/measured"
)

//go:embed read.lua
var readText string

// ReadEvery is how often a view is renewed.
const ReadEvery = time.Second

// View is the latest known of all nodes' samples. Questions are answered from
// memory and never wait. Close is not needed: Run ends with its context.
type View struct {
	rdb    *redis.Client
	script *redis.Script
	clock  func() time.Time
	log    *slog.Logger

	current atomic.Pointer[picture]
	up      atomic.Bool
	uses    *prometheus.CounterVec
	changed func(nodes []string)
}

// picture is one reading; ages grow from then on.
type picture struct {
	at    time.Time
	cards map[string]measured.Card // ages as they were at that time
}

// ViewConfig is what a view works with.
type ViewConfig struct {
	Redis      *redis.Options
	Clock      func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	// Changed is told which nodes' samples say something else than before; nil:
	// nobody. It returns at once.
	Changed func(nodes []string)
}

// NewView makes an empty view, which Run keeps current.
func NewView(cfg ViewConfig) (*View, error) {
	v := &View{
		rdb: client(cfg.Redis, 2), script: redis.NewScript(readText), clock: cfg.Clock, log: cfg.Logger, changed: cfg.Changed,
		uses: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "modeldock_gpu_measurements_used_total",
			Help: "Questions for the measured memory of a card: answered by a fresh sample, or ignored because it was stale or absent.",
		}, []string{"sample"}),
	}
	v.current.Store(&picture{at: cfg.Clock()})
	for _, use := range []measured.Use{measured.Fresh, measured.Stale, measured.Absent} {
		v.uses.WithLabelValues(string(use)) // shown from the start
	}
	up := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "modeldock_gpu_measurements_up", Help: "1 while the measured memory of the cards can be read, else 0; placement then goes on by accounts alone.",
	}, func() float64 {
		if v.up.Load() {
			return 1
		}
		return 0
	})
	for _, c := range []prometheus.Collector{v.uses, up} {
		if err := cfg.Registerer.Register(c); err != nil {
			return nil, errors.Join(fmt.Errorf("register the metrics of the measured memory: %w", err), v.rdb.Close())
		}
	}
	return v, nil
}

// Card is what is known of a card, whatever its age; false: nothing.
func (v *View) Card(uuid string) (measured.Card, bool) {
	p := v.current.Load()
	c, ok := p.cards[uuid]
	c.Age += max(0, v.clock().Sub(p.at))
	return c, ok
}

// All is what is known of every card, whatever its age, by uuid.
func (v *View) All() map[string]measured.Card {
	p := v.current.Load()
	older := max(0, v.clock().Sub(p.at))
	all := make(map[string]measured.Card, len(p.cards))
	for uuid, c := range p.cards {
		c.Age += older
		all[uuid] = c
	}
	return all
}

// Fresh is what may be placed by. What is too old or absent is counted and is
// no answer.
func (v *View) Fresh(uuid string) (measured.Card, bool) {
	c, ok := v.Card(uuid)
	use := measured.Fresh
	switch {
	case !ok:
		use = measured.Absent
	case !c.Fresh():
		use, ok = measured.Stale, false
	}
	v.uses.WithLabelValues(string(use)).Inc()
	return c, ok
}

// Up reports whether Redis answered last.
func (v *View) Up() bool { return v.up.Load() }

// Run renews the view until ctx ends, and then closes the connections. While
// Redis is away the view ages.
func (v *View) Run(ctx context.Context) {
	defer func() { _ = v.rdb.Close() }()
	tick := time.NewTicker(ReadEvery)
	defer tick.Stop()
	for told := false; ; {
		err := v.read(ctx)
		if ctx.Err() != nil {
			return
		}
		v.up.Store(err == nil)
		if err != nil && !told {
			v.log.Warn("the measured memory of the cards cannot be read; placement goes on by accounts alone", "error", err)
		} else if err == nil && told {
			v.log.Info("the measured memory of the cards can be read again")
		}
		told = err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (v *View) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	answer, err := v.script.Run(ctx, v.rdb, []string{key}, measured.KeptFor.Microseconds()).StringSlice()
	if err != nil {
		return fmt.Errorf("read the measured memory: %w", err)
	}
	next, err := v.understand(answer)
	if err != nil {
		return err
	}
	before := v.current.Swap(next)
	if nodes := differing(before.cards, next.cards); len(nodes) > 0 && v.changed != nil {
		v.changed(nodes)
	}
	return nil
}

// understand reads the script's answer: its time, then nodes and samples. What
// a node wrote that cannot be understood is that node's loss alone.
func (v *View) understand(answer []string) (*picture, error) {
	if len(answer)%2 != 1 {
		return nil, fmt.Errorf("read the measured memory: Redis answered %d values", len(answer))
	}
	now, err := strconv.ParseInt(answer[0], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("read the time of Redis: %w", err)
	}
	p := &picture{at: v.clock(), cards: map[string]measured.Card{}}
	for i := 1; i+1 < len(answer); i += 2 {
		used, at, err := sampleOf(answer[i+1])
		if err != nil {
			v.log.Warn("a node's measured memory cannot be understood", "node", answer[i], "error", err)
			continue
		}
		// A clock that was set back makes a sample look as if it came from the
		// future; nobody knows how old that is.
		age := time.Duration(now-at) * time.Microsecond
		if age < 0 {
			age = measured.KeptFor
		}
		for uuid, mib := range used {
			if have, ok := p.cards[uuid]; !ok || age < have.Age {
				p.cards[uuid] = measured.Card{Node: answer[i], UsedMiB: mib, Age: age}
			}
		}
	}
	return p, nil
}

func sampleOf(text string) (used map[string]int64, at int64, err error) {
	time, values, _ := strings.Cut(text, " ")
	if at, err = strconv.ParseInt(time, 10, 64); err != nil {
		return nil, 0, fmt.Errorf("read when it was taken: %w", err)
	}
	if err = json.Unmarshal([]byte(values), &used); err != nil {
		return nil, 0, fmt.Errorf("read its values: %w", err)
	}
	for uuid, mib := range used {
		if mib < 0 {
			return nil, 0, fmt.Errorf("card %s uses %d MiB", uuid, mib)
		}
	}
	return used, at, nil
}

// differing are the nodes of which two readings say something else.
func differing(a, b map[string]measured.Card) []string {
	nodes := map[string]bool{}
	for uuid, c := range a {
		if other, ok := b[uuid]; !ok || other.Node != c.Node || other.UsedMiB != c.UsedMiB {
			nodes[c.Node] = true
		}
	}
	for uuid, c := range b {
		if other, ok := a[uuid]; !ok || other.UsedMiB != c.UsedMiB {
			nodes[c.Node] = true
		}
	}
	var out []string
	for name := range maps.Keys(nodes) {
		out = append(out, name)
	}
	return out
}
