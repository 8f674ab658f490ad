package traffic

import "crypto/sha256"

// JourneyID names what happened to one reservation, from its submit to the
// first chunk of an answer, in traces: 16 bytes for the trace, and 8 for its
// root. Everybody computes the same from the ledger's incarnation and the
// reservation's name, so that nobody has to carry it.
func JourneyID(ledger, owner, id string) (trace [16]byte, root [8]byte) {
	sum := sha256.Sum256([]byte("modeldock journey\x00" + ledger + "\x00" + owner + "\x00" + id))
	return [16]byte(sum[:16]), [8]byte(sum[16:24])
}
