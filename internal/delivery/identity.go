package delivery

import (
	"fmt"
	"strings"
)

// maxIdentity is how many bytes of what an engine calls its model, or the
// model's owner, are kept and shown.
const maxIdentity = 256

// Identity is what an engine says it serves, as "model (owned by …)", cut
// visibly: an engine of a tenant's own may say anything.
func Identity(model, ownedBy string) string {
	if ownedBy == "" {
		return shortened(model)
	}
	return shortened(model) + " (owned by " + shortened(ownedBy) + ")"
}

func shortened(s string) string {
	if len(s) <= maxIdentity {
		return s
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(s[:maxIdentity], ""), len(s))
}
