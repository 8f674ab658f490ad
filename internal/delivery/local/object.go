package local

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/delivery"
	"modeldock.io/internal/modelspec"
)

// Annotations that stand on every object, as they would on a ModelService.
const (
	annotationTenant = "modeldock.io/tenant"
	annotationID     = "modeldock.io/request-id"
	annotationLedger = "modeldock.io/ledger"
	// annotationSeq is the ledger's highest journal number at the latest delivery.
	annotationSeq = "modeldock.io/journal-seq"
)

const recordVersion = 1

// record is an object as it is kept on disk.
type record struct {
	Version     int               `json:"version"`
	UID         string            `json:"uid"`
	Name        string            `json:"name"`
	Annotations map[string]string `json:"annotations"`
	Generation  int64             `json:"generation"`
	Model       modelspec.Model   `json:"model"`
	Funded      int               `json:"fundedReplicas"`
	// Asked is how many replicas the scaler wants; nil: as many as are funded.
	Asked      *int                   `json:"askedReplicas,omitempty"`
	Scaling    []delivery.ScalingStep `json:"scaling,omitempty"`
	CreatedAt  time.Time              `json:"createdAt"`
	DeletingAt time.Time              `json:"deletingAt,omitzero"`
}

func (r record) ledger() string { return r.Annotations[annotationLedger] }

// journalSeq is 0 on objects that were written before it was.
func (r record) journalSeq() int64 {
	seq, _ := strconv.ParseInt(r.Annotations[annotationSeq], 10, 64)
	return seq
}

// stamped returns the annotations with a newer journal number; the old ones
// may be read meanwhile and are left as they are.
func (r record) stamped(seq int64) map[string]string {
	out := maps.Clone(r.Annotations)
	if seq > r.journalSeq() {
		out[annotationSeq] = strconv.FormatInt(seq, 10)
	}
	return out
}

func (r record) ref() budget.Ref {
	return budget.Ref{Tenant: r.Annotations[annotationTenant], ID: r.Annotations[annotationID]}
}

func (r record) object() budget.Object { return budget.Object{Name: r.Name, UID: r.UID} }

// Owned reports whether the record was written by us for this ledger, and
// stands under the name that belongs to its request.
func (r record) Owned(name, ledger string) bool {
	return r.Version == recordVersion && r.UID != "" && r.Name == name &&
		r.ledger() == ledger && delivery.ObjectName(r.ref()) == name
}

// process describes what a change of makes a running process outdated;
// replicas, traffic, cache and cold start are nobody's business but ours.
func (r record) process() string {
	m := r.Model
	raw, err := json.Marshal([]any{m.Name, m.Engine, m.Source, m.Args, m.Env, m.Command, m.HealthPath, m.GPUMemory, m.GPUs})
	if err != nil {
		return "" // strings and numbers always marshal
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}

// keepAsked makes the number of replicas that is asked for one of its own,
// beginning with n, where it can change by itself: more that are funded are
// then not started before they are asked for.
func (r *record) keepAsked(n int) {
	switch {
	case !r.Model.Elastic():
		r.Asked = nil
	case r.Asked == nil:
		r.Asked = &n
	}
}

// object is a record with what runs for it. The target's lock guards it.
type object struct {
	rec         record
	slots       map[int]*slot
	lastFailure *delivery.Failure
	last        map[int]delivery.Replica // by index, as it was when its latest process ended
	published   delivery.Status
}

func newObject(rec record) *object {
	return &object{rec: rec, slots: map[int]*slot{}, last: map[int]delivery.Replica{}}
}

// advance takes a newer record. Processes that it describes as well as the
// old one did need no replacement and count as its own.
func (o *object) advance(next record) {
	o.rec = next
	for _, s := range o.slots {
		if s.run != nil && s.run.process == next.process() {
			s.run.generation = next.Generation
		}
	}
}

// wanted is the number of replicas that should run: asked for, and paid for.
func (o *object) wanted() int {
	if !o.rec.DeletingAt.IsZero() {
		return 0
	}
	return min(o.rec.asked(), o.rec.Funded)
}

// asked is the number of replicas that is asked for. A model whose number
// cannot change runs what is funded, and none runs less than its minimum.
func (r record) asked() int {
	if r.Asked == nil || !r.Model.Elastic() {
		return r.Funded
	}
	return max(*r.Asked, r.Model.Replicas.Min)
}

// slot is one of the object's replicas over all its restarts.
type slot struct {
	index     int
	run       *run // nil while no process exists
	failures  int  // runs in a row that failed
	taken     int  // runs in a row that found their port taken
	restarts  int
	everReady bool
	retryAt   time.Time
	reason    delivery.Reason // why nothing runs
	message   string
}

func replicaName(object string, index int) string { return fmt.Sprintf("%s-%d", object, index) }

// newUID returns a random version 4 UUID.
func newUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
