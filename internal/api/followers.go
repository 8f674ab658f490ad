package api

import (
	"fmt"
	"net/http"
	"sync"
)

// followers bounds the logs that are followed, as the hub bounds event streams:
// each holds a connection, and a reader of the target, for as long as it lasts.
type followers struct {
	mu   sync.Mutex
	all  int
	keys map[string]int
}

func newFollowers() *followers { return &followers{keys: map[string]int{}} }

// begin returns how a follower leaves, or a problem.
func (f *followers) begin(key string) (leave func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all >= maxSubscribers {
		return nil, &problem{http.StatusServiceUnavailable, codeUnavailable, fmt.Sprintf("%d logs are followed already; try again later", maxSubscribers), ""}
	}
	if f.keys[key] >= maxPerKey {
		return nil, &problem{http.StatusTooManyRequests, codeTooManyStreams, fmt.Sprintf("%d logs are followed with this key already; end one first", maxPerKey), ""}
	}
	f.all++
	f.keys[key]++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.all--
		if f.keys[key]--; f.keys[key] == 0 {
			delete(f.keys, key)
		}
	}, nil
}
