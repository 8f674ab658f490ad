package gateway

import (
	"cmp"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// untakenLook is how often answers are looked at that wait for their callers.
	untakenLook = time.Second
	// maxUntaken is how many may wait at once, for longer than a look. Each holds
	// some twelve KiB and the place of its request.
	maxUntaken = 4096
)

// untaken ends HTTP/2 answers whose callers take nothing of them. A caller says
// itself how much it will take; one that says nothing any more holds its answer
// for as long as its machine answers pings, which TCP and its limits know
// nothing of. An answer waits for deadPeerLimit at most, and where too many
// wait, the connection with most of them is closed.
type untaken struct {
	limit time.Duration
	most  int

	mu      sync.Mutex
	answers map[*answering]struct{}
	looking bool
}

func newUntaken() *untaken {
	return &untaken{limit: deadPeerLimit, most: maxUntaken, answers: map[*answering]struct{}{}}
}

// watch is for every request that came by HTTP/2.
func (u *untaken) watch(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor < 2 {
			h.ServeHTTP(w, r)
			return
		}
		conn, _ := r.Context().Value(connKey{}).(*wordedConn)
		a := &answering{ResponseWriter: w, conn: conn}
		u.enter(a)
		defer u.leave(a)
		h.ServeHTTP(a, r)
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

func (u *untaken) leave(a *answering) {
	a.over()
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.answers, a)
}

// look ends what waits for too long, and comes back while there are answers.
func (u *untaken) look() {
	for _, a := range u.waiting(u.limit) {
		a.cut()
	}
	for _, conn := range u.surplus() {
		_ = conn.Close()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.looking = len(u.answers) > 0; u.looking {
		time.AfterFunc(untakenLook, u.look)
	}
}

// waiting are the answers of which nothing was taken for so long.
func (u *untaken) waiting(long time.Duration) (all []*answering) {
	until := time.Now().Add(-long).UnixNano()
	u.mu.Lock()
	defer u.mu.Unlock()
	for a := range u.answers {
		if since := a.since.Load(); since != 0 && since <= until {
			all = append(all, a)
		}
	}
	return all
}

// surplus are the connections to close because too many answers wait: those
// with most of them, as few as suffice.
func (u *untaken) surplus() (conns []net.Conn) {
	all := u.waiting(untakenLook)
	if len(all) <= u.most {
		return nil
	}
	of := map[*wordedConn]int{}
	for _, a := range all {
		if a.conn != nil {
			of[a.conn]++
		}
	}
	byCount := make([]*wordedConn, 0, len(of))
	for c := range of {
		byCount = append(byCount, c)
	}
	slices.SortFunc(byCount, func(a, b *wordedConn) int { return cmp.Compare(of[b], of[a]) })
	left := len(all)
	for _, c := range byCount {
		if left <= u.most {
			break
		}
		left -= of[c]
		conns = append(conns, c)
	}
	return conns
}

// answering is one answer, which remembers since when it waits for its caller.
type answering struct {
	http.ResponseWriter
	conn  *wordedConn
	since atomic.Int64 // Unix nanoseconds; 0: it does not

	mu   sync.Mutex
	done bool // its writer is not to be used any more
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
	a.done = true
}

// cut ends the stream, so that the write fails.
func (a *answering) cut() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.done {
		_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Unix(1, 0))
	}
}
