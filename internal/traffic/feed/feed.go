// Package feed carries what gateways decide by from the control plane to
// them, and back their evidence and that callers wait for a sleeping model. A gateway asks for the snapshot with one long
// call after the other, keeps the last one on disk, and goes on with it for
// as long as nobody answers.
package feed

import (
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"
)

// Paths of the calls.
const (
	PathSnapshot   = "/gateway/snapshot"
	PathInferences = "/gateway/inferences"
	PathWake       = "/gateway/wake"
)

// headerTaken says how many milliseconds after a call came its answer was
// taken from the ledger; negative: before that.
const headerTaken = "Modeldock-Taken"

// MinToken is the least length of the token that both sides share.
const MinToken = 32

// CheckToken refuses a token that could be guessed.
func CheckToken(token string) error {
	if len(token) < MinToken {
		return fmt.Errorf("the token of the gateways has %d characters: write at least %d random ones into its file, for example by `openssl rand -hex 32`", len(token), MinToken)
	}
	return nil
}

// Authorized reports whether a caller knows the token; it compares in constant time.
func Authorized(r *http.Request, token string) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && subtle.ConstantTimeCompare([]byte(given), []byte(token)) == 1
}
