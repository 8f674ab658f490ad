package cache

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// DefaultBytes is how much a gateway keeps in memory.
const DefaultBytes = 64 << 20

// entryCost is what an answer costs beside its bytes.
const entryCost = 512

// Memory keeps answers in this process: the ones used last, up to a bound.
type Memory struct {
	clock func() time.Time
	most  int64 // bytes

	mu     sync.Mutex
	used   int64
	recent *list.List // of *entry; the one used last is first
	by     map[Key]*list.Element
}

type entry struct {
	key    Key
	answer Answer
	until  time.Time
}

func (e *entry) cost() int64 {
	return int64(len(e.answer.Body)+len(e.answer.ContentType)) + entryCost
}

// NewMemory returns an empty cache of at most so many bytes.
func NewMemory(clock func() time.Time, most int64) *Memory {
	return &Memory{clock: clock, most: most, recent: list.New(), by: map[Key]*list.Element{}}
}

// Get implements Store.
func (m *Memory) Get(_ context.Context, k Key) (Answer, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.by[k]
	if at == nil {
		return Answer{}, false
	}
	e, _ := at.Value.(*entry)
	if !m.clock().Before(e.until) {
		m.drop(at)
		return Answer{}, false
	}
	m.recent.MoveToFront(at)
	return e.answer, true
}

// Put implements Store.
func (m *Memory) Put(_ context.Context, k Key, a Answer, ttl time.Duration) {
	e := &entry{k, a, m.clock().Add(ttl)}
	if len(a.Body) > MaxAnswer || e.cost() > m.most {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if at := m.by[k]; at != nil {
		m.drop(at)
	}
	for m.used+e.cost() > m.most {
		m.drop(m.recent.Back())
	}
	m.by[k] = m.recent.PushFront(e)
	m.used += e.cost()
}

func (m *Memory) drop(at *list.Element) {
	e, _ := m.recent.Remove(at).(*entry)
	delete(m.by, e.key)
	m.used -= e.cost()
}

// Bytes is how much is kept.
func (m *Memory) Bytes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}
