package budget

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"modeldock.io/internal/modelspec"
)

// MaxNumber bounds the numbers that a ledger gives out (arrival, journal,
// revisions, …): they are exact in every client.
const MaxNumber = 1<<53 - 1

// MostGivenOut is the highest number that a ledger can have given out until
// now: one for each microsecond since 1970. No ledger gives them out as fast,
// so that one which was taken in with this very number stays below it for ever
// after, and what it exports can be taken in again.
func MostGivenOut(now time.Time) int64 { return min(now.UnixMicro(), MaxNumber) }

// MaxName bounds names that come from elsewhere (nodes, relays, endpoints),
// in bytes: it is what the databases hold of them.
const MaxName = 255

// MaxSpecHash is the same of a reservation's hash.
const MaxSpecHash = 128

// maxIntentError bounds what an outbox row keeps of a target's refusal.
const maxIntentError = 4 << 10

// IntentError is what an outbox row keeps of why a delivery failed: targets
// repeat what others said, at any length.
func IntentError(text string) string {
	if len(text) <= maxIntentError {
		return text
	}
	return strings.ToValidUTF8(text[:maxIntentError], "") + "…"
}

// maxSlots is what one request can hold at most.
const maxSlots = MaxCost * modelspec.MaxReplicas

// Validate returns an error for a stored reservation that no submit and no
// change of it can have led to. The model of one that ended was judged by the
// version that took it, and nothing runs for it any more: of that, only what
// is computed with is judged. Numbers go up to most: see MostGivenOut.
func (r Reservation) Validate(most int64) error {
	s := r.submission()
	check := s.Validate
	if r.State.Final() {
		check = s.checkAccount
	}
	if err := check(); err != nil {
		return err
	}
	if err := r.checkHash(); err != nil {
		return err
	}
	if n := r.Model.Replicas.Funded(); n > modelspec.MaxReplicas {
		return fmt.Errorf("replicas.min is %d; at most %d are possible", n, modelspec.MaxReplicas)
	}
	if err := checkFunded(r.Funded); err != nil {
		return err
	}
	if r.Held < 0 || r.Held > maxSlots {
		return fmt.Errorf("%d slots are held; one request holds from 0 to %d", r.Held, int64(maxSlots))
	}
	for _, n := range []struct {
		what  string
		value int64
	}{{"revision", r.Revision}, {"generation", r.Generation}, {"number of submits", r.Submits}} {
		if n.value < 1 || n.value > most {
			return fmt.Errorf("the %s is %d; it goes from 1 to %d, one for each microsecond since 1970", n.what, n.value, most)
		}
	}
	return nil
}

// submission is what was asked for first, as long as nobody changed r's model.
func (r Reservation) submission() Submission {
	return Submission{Ref: r.Ref, Cost: r.Cost, Priority: r.Priority, Pool: r.Pool, TTL: r.ExpiresAt.Sub(r.CreatedAt), Model: r.Model}
}

// checkHash refuses a hash that is not that of the submission. It can be
// computed again for a model that nobody has changed, in the form that this
// version writes; of one that ended it decides nothing but what a repeated
// submit is told.
func (r Reservation) checkHash() error {
	if r.State.Final() || r.Generation != 1 || !strings.HasPrefix(r.SpecHash, hashVersion) {
		return nil
	}
	if want := r.submission().Hash(); r.SpecHash != want {
		return fmt.Errorf("specHash is %q, and that of its cost, priority, pool, time to live and model is %s", r.SpecHash, want)
	}
	return nil
}

// ModelPrint tells models apart without keeping them: by all of a model, and
// by what no patch changes.
type ModelPrint struct{ whole, fixed [sha256.Size]byte }

// PrintModel returns m's.
func PrintModel(m modelspec.Model) ModelPrint {
	return ModelPrint{whole: digest(m), fixed: digest(Patch{
		Replicas: &modelspec.Replicas{}, Scaling: &modelspec.Scaling{}, Traffic: &modelspec.Traffic{}, Cache: &modelspec.Cache{}, ColdStart: &modelspec.ColdStart{},
	}.Of(m))}
}

func digest(m modelspec.Model) [sha256.Size]byte {
	raw, err := json.Marshal(m)
	if err != nil {
		// Unreachable: a model holds only strings, numbers and flags.
		panic(fmt.Sprintf("budget: marshal a model: %v", err))
	}
	return sha256.Sum256(raw)
}

// CheckOf returns an error unless in can be of a request that is at generation
// with a model like of: its intent of that generation has this model, those of
// earlier ones differ in what a patch may change.
func (in Intent) CheckOf(generation int64, of ModelPrint) error {
	p := PrintModel(in.Model)
	switch {
	case in.Generation > generation:
		return fmt.Errorf("its generation is %d and its request is at %d", in.Generation, generation)
	case in.Generation == generation && p.whole != of.whole:
		return fmt.Errorf("its model %s@%s (%s) is not the one of its request at the same generation %d", in.Model.Name, in.Model.Version, in.Model.Engine, generation)
	case p.fixed != of.fixed:
		return fmt.Errorf("its model %s@%s (%s) differs from its request's in more than a patch can change", in.Model.Name, in.Model.Version, in.Model.Engine)
	}
	return nil
}

func checkFunded(n int) error {
	if n < 0 || n > modelspec.MaxReplicas {
		return fmt.Errorf("%d replicas are funded; they go from 0 to %d", n, modelspec.MaxReplicas)
	}
	return nil
}

// Validate returns an error for an intent that asks a target for what no
// submit can have asked for.
func (in Intent) Validate() error {
	if err := checkFunded(in.Funded); err != nil {
		return err
	}
	if in.Op == Delete {
		return nil
	}
	return in.Model.Validate()
}

// Validate returns an error for an entry that no request can have caused.
// Numbers go up to most: see MostGivenOut.
func (e Entry) Validate(most int64) error {
	if e.Slots < -maxSlots || e.Slots > maxSlots {
		return fmt.Errorf("it moves %d slots; one request holds %d at most", e.Slots, int64(maxSlots))
	}
	if e.Revision < 1 || e.Revision > most {
		return fmt.Errorf("its revision is %d; it goes from 1 to %d, one for each microsecond since 1970", e.Revision, most)
	}
	return nil
}
