package operator

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"modeldock.io/api/v1alpha1"
	"modeldock.io/internal/delivery"
)

// How long a status of mere progress waits for better news: two seconds, and
// more with every object that was held beside it. A model that starts soon is then told
// of once, when it is Ready, and a thousand that start together do not take
// the API server's time from their own Pods.
const (
	holdProgress = 2 * time.Second
	holdEach     = 100 * time.Millisecond
	holdLongest  = 2 * time.Minute
)

// memory is what the operator remembers of objects that are on their way.
// Nothing depends on it: without it there are a few more requests.
type memory struct {
	mu      sync.Mutex
	objects map[types.NamespacedName]*remembered
	held    int // of them
}

type remembered struct {
	uid  types.UID
	held time.Time // since when progress is not told; zero: all is told
	most int       // how many were held at once meanwhile
	// calm says that no Pod was ready at the last look: until one is, or there
	// is trouble, nothing can happen that would be told now. missed says that
	// something did happen since that look began.
	calm, missed bool
	// taken says that a child's name was found to be somebody's.
	taken bool
	// seen is the version that the last status was written to, and told what it
	// made of it, until the watch shows that; made is the version of that.
	seen, made string
	told       *v1alpha1.ModelService
}

func newMemory() *memory { return &memory{objects: map[types.NamespacedName]*remembered{}} }

// meet reports whether an object is seen for the first time.
func (m *memory) meet(key types.NamespacedName, uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.objects[key]
	if o != nil && o.uid == uid {
		o.missed = false
		return false
	}
	m.tell(o)
	m.objects[key] = &remembered{uid: uid}
	return true
}

// take notes that a child's name is somebody's, and isTaken reports it.
func (m *memory) take(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o := m.objects[key]; o != nil {
		o.taken = true
	}
}

func (m *memory) isTaken(key types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.objects[key]
	return o != nil && o.taken
}

// written notes what a status made of the version that was seen.
func (m *memory) written(key types.NamespacedName, seen string, told *v1alpha1.ModelService) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o := m.objects[key]; o != nil && o.uid == told.UID {
		told.ManagedFields = nil
		o.seen, o.made, o.told = seen, told.ResourceVersion, told
	}
}

// newest is object, or what the operator itself has made of this very version:
// the watch is behind what was written a moment ago.
func (m *memory) newest(key types.NamespacedName, object *v1alpha1.ModelService) *v1alpha1.ModelService {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.objects[key]
	if o == nil || o.told == nil {
		return object
	}
	if o.uid != object.UID || o.seen != object.ResourceVersion {
		o.told = nil // the watch has gone on
		return object
	}
	return o.told.DeepCopy()
}

// echo reports whether a version of an object is the one that the operator's
// own last status made.
func (m *memory) echo(key types.NamespacedName, version string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.objects[key]
	return o != nil && o.made == version
}

func (m *memory) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tell(m.objects[key])
	delete(m.objects, key)
}

// tell ends the holding of an object, which may be nil. It needs the lock.
func (m *memory) tell(o *remembered) {
	if o != nil && !o.held.IsZero() {
		o.held, o.most = time.Time{}, 0
		m.held--
	}
}

// quiet reports whether a child's progress needs no look: that of its object is
// held, which is looked at again at the end of that.
func (m *memory) quiet(child client.Object) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.objects[types.NamespacedName{Namespace: child.GetNamespace(), Name: child.GetLabels()[v1alpha1.LabelModelService]}]
	if o == nil || !o.calm || o.held.IsZero() {
		return false
	}
	o.missed = true
	return true
}

// hold is how much longer a status may wait, 0 where it is to be told now.
func (m *memory) hold(key types.NamespacedName, progress, calm bool, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.objects[key]
	if o == nil {
		return 0
	}
	o.calm = calm
	if !progress {
		m.tell(o)
		return 0
	}
	if o.held.IsZero() {
		o.held = now
		m.held++
	}
	o.most = max(o.most, m.held)
	wait := min(holdProgress+time.Duration(o.most-1)*holdEach, holdLongest) - now.Sub(o.held)
	if wait <= 0 {
		m.tell(o)
		return 0
	}
	if !calm && o.missed { // a look that found a ready Pod may have come too early for its ReplicaSet
		return min(wait, soon)
	}
	return wait
}

// onTheWay reports whether a status says nothing but that an object which was
// not Ready comes nearer to it.
func onTheWay(before, after v1alpha1.ModelServiceStatus) bool {
	ready := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status == metav1.ConditionTrue || meta.IsStatusConditionTrue(before.Conditions, v1alpha1.ConditionReady) {
		return false
	}
	if !onlyProgress(ready.Reason) {
		return false
	}
	for _, trouble := range []string{v1alpha1.ConditionOwnershipConflict, v1alpha1.ConditionStalled} {
		if meta.IsStatusConditionTrue(before.Conditions, trouble) || meta.IsStatusConditionTrue(after.Conditions, trouble) {
			return false
		}
	}
	return equality.Semantic.DeepEqual(before.LastFailure, after.LastFailure) && !equality.Semantic.DeepEqual(before, after)
}

// onlyProgress reports whether the reason why an object is not Ready is no more
// than that it takes time.
func onlyProgress(reason string) bool {
	return reason == string(delivery.Loading) || reason == string(delivery.WaitingForNode)
}
