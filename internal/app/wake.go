package app

import "sync"

// bell wakes any number of loops; a ring while a loop is busy is kept, and
// several rings are one.
type bell struct {
	mu        sync.Mutex
	listeners []chan struct{}
}

func (b *bell) listen() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	ch := make(chan struct{}, 1)
	b.listeners = append(b.listeners, ch)
	return ch
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, ch := range b.listeners {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}
