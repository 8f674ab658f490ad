package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"modeldock.io/internal/api/openapi"
)

// Event is a hint that something moved: the client reads the record again.
type Event struct {
	Topic    string `json:"-"`
	Tenant   string `json:"tenant"`
	ID       string `json:"id"`
	Revision int64  `json:"revision"`
}

// topics are the kinds of events.
var topics = []string{"request", "model", "node", "quota", "ledger"}

// topicReset is no topic that a client can choose: every stream gets it.
const topicReset = "reset"

// topicRefused is the last event of a stream whose caller's key or session is
// not valid any more.
const topicRefused = "refused"

const resetEvent = "event: reset\ndata: {}\n\n"

const (
	keepAlive       = 15 * time.Second
	subscriberQueue = 256
	maxSubscribers  = 1024
	// maxPerKey leaves room for others: nobody takes all streams.
	maxPerKey = 64
)

// Hub hands events to the open streams. A stream that cannot keep up is told
// to read everything again instead of holding the others back.
type Hub struct {
	mu     sync.Mutex
	subs   map[chan Event]struct{}
	places *places
	closed chan struct{}
	once   sync.Once
	quiet  time.Duration // between two comments of a stream
}

// NewHub returns a hub without subscribers.
func NewHub() *Hub {
	return &Hub{subs: map[chan Event]struct{}{}, places: newPlaces(maxPerKey, maxSubscribers), closed: make(chan struct{}), quiet: keepAlive}
}

// Publish never blocks.
func (h *Hub) Publish(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ch := range h.subs {
		select {
		case ch <- e:
		default: // full: the subscriber sees the closed channel and starts anew
			delete(h.subs, ch)
			close(ch)
		}
	}
}

// Reset tells every stream to read everything again.
func (h *Hub) Reset() { h.Publish(Event{Topic: topicReset}) }

// Close ends every stream and every followed log, so that a server can shut down.
func (h *Hub) Close() { h.once.Do(func() { close(h.closed) }) }

// untilClosed is ctx until the hub is closed.
func (h *Hub) untilClosed(ctx context.Context) (until context.Context, end func()) {
	until, end = context.WithCancel(ctx)
	go func() {
		select {
		case <-h.closed:
			end()
		case <-until.Done():
		}
	}()
	return until, end
}

func (h *Hub) isClosed() bool {
	select {
	case <-h.closed:
		return true
	default:
		return false
	}
}

// subscribe returns the events and how they end, or a problem.
func (h *Hub) subscribe(key string) (ch chan Event, leave func(), err error) {
	give, err := takeStream(h.places, key, "event streams")
	if err != nil {
		return nil, nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	ch = make(chan Event, subscriberQueue)
	h.subs[ch] = struct{}{}
	return ch, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.subs, ch)
		give()
	}, nil
}

// takeStream takes a place for what lasts and holds a connection.
func takeStream(p *places, key, what string) (leave func(), err error) {
	leave, err = p.take(key)
	switch {
	case errors.Is(err, errOwnTaken):
		return nil, &problem{http.StatusTooManyRequests, codeTooManyStreams, fmt.Sprintf("%d %s of this key are open already; close one first", p.each, what), ""}
	case errors.Is(err, errAllTaken):
		return nil, &problem{http.StatusServiceUnavailable, codeUnavailable, fmt.Sprintf("%d %s are open already; try again later", p.all, what), ""}
	}
	return leave, nil
}

// StreamEvents serves hints until the client leaves.
func (s handlers) StreamEvents(c *gin.Context, params openapi.StreamEventsParams) {
	wanted, err := wantedTopics(value(params.Topics, ""))
	if err != nil {
		s.fail(c, err)
		return
	}
	ch, leave, err := s.Hub.subscribe(who(c).KeyID)
	if err != nil {
		s.fail(c, err)
		return
	}
	defer leave()
	c.Header("Content-Type", "text/event-stream")
	c.Header("Cache-Control", "no-store")
	c.Header("X-Accel-Buffering", "no")
	c.Status(http.StatusOK)
	_ = http.NewResponseController(c.Writer).SetWriteDeadline(time.Time{})
	s.stream(c, ch, wanted)
}

func (s *Server) stream(c *gin.Context, ch chan Event, wanted []string) {
	tick := time.NewTicker(s.Hub.quiet)
	defer tick.Stop()
	send := func(format string, args ...any) bool {
		_, err := fmt.Fprintf(io.Writer(c.Writer), format, args...)
		c.Writer.Flush()
		return err == nil
	}
	alive := send(resetEvent)
	p := who(c)
	valid, end := s.untilRefused(c)
	defer end()
	for alive {
		select {
		case <-valid.Done():
			if why := refusal(valid); why != nil { // else the caller has left
				data, _ := json.Marshal(map[string]string{"message": why.Error()}) // strings only
				send("event: %s\ndata: %s\n\n", topicRefused, data)
			}
			return
		case e, open := <-ch:
			if !open {
				return
			}
			if e.Topic == topicReset {
				alive = send(resetEvent)
			} else if slices.Contains(wanted, e.Topic) && visible(p, e) {
				data, _ := json.Marshal(e) // strings and integers only
				alive = send("event: %s\ndata: %s\n\n", e.Topic, data)
			}
		case <-tick.C:
			alive = send(": keep-alive\n\n")
		case <-s.Hub.closed:
			send(": this process stops; connect again\n\n")
			return
		}
	}
}

// visible keeps other tenants' names and ids away from a tenant; hints about
// shared things (nodes) carry neither.
func visible(p Principal, e Event) bool {
	return p.readsAll() || e.Tenant == p.Tenant || (e.Tenant == "" && e.ID == "")
}

func wantedTopics(list string) ([]string, error) {
	if list == "" {
		return topics, nil
	}
	wanted := strings.Split(list, ",")
	for _, t := range wanted {
		if !slices.Contains(topics, t) {
			return nil, invalid("topics", "topics must be a comma-separated list of %s; got %q", strings.Join(topics, ", "), t)
		}
	}
	return wanted, nil
}
