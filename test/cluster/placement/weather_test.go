//go:build cluster

package placement

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	hiddenFor = 3 * time.Second // a Pod that cannot be read
	cutFor    = 2 * time.Second // a proxy that lets nothing through
	latest    = 2 * time.Second // a Binding that takes effect after its answer
)

// weather is what happens to the scheduler's requests on their way. Which
// attempt of which Pod meets what follows from the seed alone.
type weather struct {
	proxy *proxy
	seed  uint64
	kills chan struct{} // the scheduler is to be killed now

	mu       sync.Mutex
	calm     bool
	bindings int
	killAt   map[int]bool // number of a Binding: killed once it is stored, or before
	tries    map[string]int
	hidden   map[string]time.Time
	cutUntil time.Time
	met      map[string]int
	late     sync.WaitGroup
	lateCtx  context.Context // ends what a killed scheduler left behind
	dropLate context.CancelFunc
}

// newWeather kills the scheduler at the given numbers of Bindings, by turns
// before one is stored and before its answer arrives.
func newWeather(p *proxy, seed uint64, killAt ...int) *weather {
	w := &weather{proxy: p, seed: seed, kills: make(chan struct{}), killAt: map[int]bool{}, tries: map[string]int{}, hidden: map[string]time.Time{}, met: map[string]int{}}
	for i, n := range killAt {
		w.killAt[n] = i%2 == 0
	}
	w.lateCtx, w.dropLate = context.WithCancel(context.Background())
	return w
}

// serve answers a request itself, or leaves it to the proxy.
func (w *weather) serve(to http.ResponseWriter, r *http.Request) bool {
	name, isBinding := strings.CutSuffix(r.URL.Path, "/binding")
	name = path.Base(name)
	w.mu.Lock()
	isCut, isHidden := time.Now().Before(w.cutUntil), r.Method == http.MethodGet && time.Now().Before(w.hidden[name])
	w.mu.Unlock()
	switch {
	case isCut:
		panic(http.ErrAbortHandler)
	case isHidden:
		refuse(to, http.StatusInternalServerError, metav1.StatusReasonInternalError)
		return true
	case r.Method != http.MethodPost || !isBinding:
		return false
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.mu.Lock()
	w.bindings++
	stored, dies := w.killAt[w.bindings]
	delete(w.killAt, w.bindings)
	fault := w.fault(name)
	w.mu.Unlock()
	switch {
	case dies:
		if stored {
			w.send(r.Context(), r, body)
		}
		select {
		case w.kills <- struct{}{}:
			<-r.Context().Done() // it is dead
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	default:
		w.meet(to, r, name, fault, body)
	}
	return true
}

// fault draws what an attempt meets; it needs the lock.
func (w *weather) fault(name string) string {
	try := w.tries[name]
	w.tries[name]++
	hash := fnv.New64a()
	_, _ = fmt.Fprintf(hash, "%s/%d", name, try) // a hash never fails
	x := rand.New(rand.NewPCG(w.seed, hash.Sum64())).IntN(100)
	if try > 0 {
		x *= 2 // it gets better
	}
	fault := ""
	if !w.calm {
		for _, f := range []struct {
			name  string
			below int
		}{
			{"stored, connection cut", 6}, {"stored, 500", 11}, {"stored, cut, Pod unreadable", 15}, {"504, stored later", 19},
			{"403", 22}, {"429", 24}, {"409, not stored", 26}, {"500, not stored", 29}, {"cut, not stored", 31},
		} {
			if x < f.below {
				fault = f.name
				break
			}
		}
	}
	w.met[fault]++
	return fault
}

func (w *weather) meet(to http.ResponseWriter, r *http.Request, name, fault string, body []byte) {
	switch fault {
	case "stored, cut, Pod unreadable":
		w.mu.Lock()
		w.hidden[name] = time.Now().Add(hiddenFor)
		w.mu.Unlock()
		fallthrough
	case "stored, connection cut":
		w.send(r.Context(), r, body)
		panic(http.ErrAbortHandler)
	case "cut, not stored":
		panic(http.ErrAbortHandler)
	case "stored, 500":
		w.send(r.Context(), r, body)
		refuse(to, http.StatusInternalServerError, metav1.StatusReasonInternalError)
	case "504, stored later":
		w.later(r, name, body)
		refuse(to, http.StatusGatewayTimeout, metav1.StatusReasonTimeout)
	case "500, not stored":
		refuse(to, http.StatusInternalServerError, metav1.StatusReasonInternalError)
	case "409, not stored":
		refuse(to, http.StatusConflict, metav1.StatusReasonConflict)
	case "403":
		refuse(to, http.StatusForbidden, metav1.StatusReasonForbidden)
	case "429":
		refuse(to, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests)
	default:
		answer := w.send(r.Context(), r, body)
		if answer == nil {
			panic(http.ErrAbortHandler)
		}
		to.Header().Set("Content-Type", answer.contentType)
		to.WriteHeader(answer.code)
		_, _ = to.Write(answer.body) // the scheduler may be gone
	}
}

func refuse(to http.ResponseWriter, code int32, reason metav1.StatusReason) {
	to.Header().Set("Content-Type", "application/json")
	to.WriteHeader(int(code))
	_ = json.NewEncoder(to).Encode(metav1.Status{ // the scheduler may be gone
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: code, Reason: reason, Message: "the storm says " + string(reason),
	})
}

type answer struct {
	code        int
	contentType string
	body        []byte
}

// send passes a request on; nil means that no answer came.
func (w *weather) send(ctx context.Context, r *http.Request, body []byte) *answer {
	out, err := http.NewRequestWithContext(ctx, r.Method, w.proxy.to.JoinPath(r.URL.Path).String()+"?"+r.URL.RawQuery, bytes.NewReader(body))
	if err != nil {
		return nil
	}
	for _, name := range []string{"Content-Type", "Accept", "User-Agent"} {
		out.Header.Set(name, r.Header.Get(name))
	}
	res, err := w.proxy.transport.RoundTrip(out)
	if err != nil {
		return nil
	}
	defer func() { _ = res.Body.Close() }() // it was read
	got, err := io.ReadAll(res.Body)
	if err != nil {
		return nil
	}
	return &answer{res.StatusCode, res.Header.Get("Content-Type"), got}
}

// later passes a request on after its answer, unless the scheduler is killed:
// the API server lets go of requests whose connection has ended.
func (w *weather) later(r *http.Request, name string, body []byte) {
	w.mu.Lock()
	ctx, after := w.lateCtx, latest*time.Duration(len(body)%7+1)/8
	w.mu.Unlock()
	w.late.Go(func() {
		select {
		case <-time.After(after):
			w.send(ctx, r, body)
		case <-ctx.Done():
		}
	})
}

// dead says that the scheduler was killed: nothing of it is under way any more.
func (w *weather) dead() {
	w.mu.Lock()
	w.dropLate()
	w.mu.Unlock()
	w.late.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lateCtx, w.dropLate = context.WithCancel(context.Background())
}

// cut lets nothing through for a while, and ends what is open.
func (w *weather) cut() {
	w.mu.Lock()
	w.cutUntil = time.Now().Add(cutFor)
	w.met["everything cut"]++
	w.mu.Unlock()
	w.proxy.front.CloseClientConnections()
}

// clear ends the storm; it tells how many kills never came about.
func (w *weather) clear() (left int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	left, w.calm = len(w.killAt), true
	clear(w.killAt)
	return left
}

// String tells what Bindings met.
func (w *weather) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, fault := range slices.Sorted(maps.Keys(w.met)) {
		all = append(all, fmt.Sprintf("%s: %d", cmp.Or(fault, "nothing"), w.met[fault]))
	}
	return strings.Join(all, "; ")
}
