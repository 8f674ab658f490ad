package gateway

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"modeldock.io/internal/fair"
)

const (
	// untakenLook is how often answers are looked at that wait for their callers.
	untakenLook = time.Second
	// maxUntaken is how many tenants' answers may wait at once, for longer than a
	// look. Each holds some 13 KiB and the place of its request.
	maxUntaken = 4096
	// maxStrangers is how many requests strangers may have, those that net/http
	// answers by itself included, before their connections are hardly read any
	// further. Each may hold its header and what came of its body as well.
	maxStrangers = 1024
	// strangersWait is how long a stranger's answer may wait where strangers have
	// too many.
	strangersWait = 50 * time.Millisecond
)

// untaken ends HTTP/2 answers whose callers take nothing of them. A caller says
// itself how much it will take; one that says nothing any more holds its answer
// for as long as its machine answers pings, which TCP and its limits know
// nothing of. An answer waits for deadPeerLimit at most. Where too many wait,
// those end first whose caller has most of them, and the oldest of these;
// strangers' are counted by their addresses and never at the cost of tenants'.
type untaken struct {
	limit         time.Duration
	most, strange int          // maxUntaken, maxStrangers
	strangers     atomic.Int64 // requests of strangers; see streams
	halfHeaders   atomic.Int64 // bytes; see halfHeader

	places sync.Mutex
	from   map[netip.Prefix]int // strangers, by address

	mu      sync.Mutex
	answers map[*answering]struct{}
	looking bool
}

func newUntaken() *untaken {
	return &untaken{limit: deadPeerLimit, most: maxUntaken, strange: maxStrangers, answers: map[*answering]struct{}{}, from: map[netip.Prefix]int{}}
}

// crowded tells that strangers have too many requests.
func (u *untaken) crowded() bool { return u.strangers.Load() > int64(u.strange) }

// full tells that an address has its part of the crowd.
func (u *untaken) full(from netip.Prefix) bool {
	u.places.Lock()
	defer u.places.Unlock()
	return u.from[from] >= u.strange/perAddress
}

// add adds n to the strangers' requests of an address.
func (u *untaken) add(from netip.Prefix, n int) {
	if n == 0 {
		return
	}
	u.strangers.Add(int64(n))
	u.places.Lock()
	defer u.places.Unlock()
	if u.from[from] += n; u.from[from] == 0 {
		delete(u.from, from)
	}
}

// answeringKey finds the answer in an HTTP/2 request's context.
type answeringKey struct{}

// AnswerFor says whose the answer to a request is, as soon as that is known: it
// is a stranger's until then. The context is the request's.
func AnswerFor(ctx context.Context, tenant string) {
	if a, ok := ctx.Value(answeringKey{}).(*answering); ok {
		a.of.known(a, tenant)
	}
}

// watch is for every request. One that reaches it has no other bound of time
// than this.
func (u *untaken) watch(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // see unheardLimit
		if r.ProtoMajor < 2 {
			h.ServeHTTP(w, r)
			return
		}
		a := &answering{ResponseWriter: w, of: u, from: strangerOf(r)}
		if c, ok := r.Context().Value(connKey{}).(*wordedConn); ok {
			a.on = &c.streams
			a.on.handle()
		}
		u.enter(a)
		defer func() { u.leave(a, r.Context().Err() != nil) }()
		h.ServeHTTP(a, r.WithContext(context.WithValue(r.Context(), answeringKey{}, a)))
		r.Header = nil // an answer that waits for its caller needs it no more
		a.answered(r.Body)
		a.Flush() // what the server would send only when nobody looks any more
	})
}

func (u *untaken) enter(a *answering) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.answers[a] = struct{}{}
	if !u.looking {
		u.looking = true
		time.AfterFunc(untakenLook, u.look)
	}
}

func (u *untaken) known(a *answering, tenant string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if a.tenant == "" && tenant != "" {
		a.tenant = tenant
		if a.on != nil {
			a.on.know()
		}
	}
}

// leave is told of an answer's end, and whether its request was taken back.
func (u *untaken) leave(a *answering, reset bool) {
	a.over()
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.answers, a)
	if a.on != nil {
		a.on.leave(a.tenant != "", reset)
	}
}

// look ends what waits for too long, and comes back while there are answers.
func (u *untaken) look() {
	cut(u.waiting(u.limit, anybody))
	cut(surplus(u.waiting(untakenLook, tenants), u.most))
	for _, a := range u.waiting(untakenLook, stranger) {
		a.shed()
	}
	if u.crowded() {
		cut(surplus(u.waiting(strangersWait, stranger), u.strange*3/4))
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.looking = len(u.answers) > 0; u.looking {
		time.AfterFunc(untakenLook, u.look)
	}
}

func anybody(*answering) bool    { return true }
func stranger(a *answering) bool { return a.tenant == "" }
func tenants(a *answering) bool  { return a.tenant != "" }

// late is an answer that waits.
type late struct {
	*answering
	whose string
	since int64
}

// waiting are the answers of some callers of which nothing was taken for so long.
func (u *untaken) waiting(long time.Duration, of func(*answering) bool) (all []late) {
	until := time.Now().Add(-long).UnixNano()
	u.mu.Lock()
	defer u.mu.Unlock()
	for a := range u.answers {
		if since := a.since.Load(); since != 0 && since <= until && of(a) {
			all = append(all, late{a, cmp.Or(a.tenant, a.from), since})
		}
	}
	return all
}

// surplus are those of the answers that are more than may wait: every caller
// keeps its latest, as many as any other.
func surplus(all []late, most int) (more []late) {
	if len(all) <= most {
		return nil
	}
	held := map[string]int64{}
	for _, a := range all {
		held[a.whose]++
	}
	counts := make([]int64, 0, len(held))
	for _, n := range held {
		counts = append(counts, n)
	}
	share := fair.EvenShare(counts, int64(most))
	slices.SortFunc(all, func(a, b late) int { return cmp.Compare(a.since, b.since) })
	for _, a := range all {
		if held[a.whose] > share {
			held[a.whose]--
			more = append(more, a)
		}
	}
	return more
}

// cut ends answers side by side: each waits for its connection's turn, and in a
// flood that is long.
func cut(all []late) {
	for _, a := range all {
		go a.cut()
	}
}

// answering is one answer, which remembers since when it waits for its caller.
type answering struct {
	http.ResponseWriter
	of     *untaken
	on     *streams     // its connection's; nil: not counted
	from   string       // the address that asked
	tenant string       // whose it is; empty: a stranger's. Guarded by of.mu.
	since  atomic.Int64 // Unix nanoseconds; 0: it does not wait

	mu   sync.Mutex
	done bool      // its writer is not to be used any more
	body io.Closer // of the request, once its handler is done with it
}

// Unwrap is for http.ResponseController.
func (a *answering) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answering) Write(p []byte) (int, error) {
	defer a.wait()()
	return a.ResponseWriter.Write(p) //nolint:wrapcheck // the writer's own
}

// WriteString spares the copy.
func (a *answering) WriteString(s string) (int, error) {
	defer a.wait()()
	return io.WriteString(a.ResponseWriter, s) //nolint:wrapcheck // the same
}

// Flush is FlushError without its error.
func (a *answering) Flush() { _ = a.FlushError() }

// FlushError sends what is buffered.
func (a *answering) FlushError() error {
	defer a.wait()()
	return http.NewResponseController(a.ResponseWriter).Flush() //nolint:wrapcheck // the same
}

func (a *answering) wait() (taken func()) {
	a.since.Store(time.Now().UnixNano())
	return func() { a.since.Store(0) }
}

func (a *answering) over() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done, a.body = true, nil
}

// answered tells that the handler is done, also with the request's body.
func (a *answering) answered(body io.Closer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.body = body
}

// shed lets go of what came of a body that nobody has read. Not at once: a
// caller who still sends it would hear of that instead of the answer.
func (a *answering) shed() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.body != nil {
		_ = a.body.Close()
		a.body = nil
	}
}

// cut ends the stream, so that the write fails.
func (a *answering) cut() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.done {
		a.done = true
		a.since.Store(0)
		_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Unix(1, 0))
	}
}
