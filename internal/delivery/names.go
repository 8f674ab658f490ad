package delivery

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"modeldock.io/internal/budget"
)

// ObjectName maps a reservation to its object's name: a DNS-1123 label of at
// most 63 characters, md-<slug of the id>-<20 hex of SHA-256(tenant 0x00 id)>.
// The slug is for people; the hash alone keeps names apart.
func ObjectName(ref budget.Ref) string {
	sum := sha256.Sum256([]byte(ref.Tenant + "\x00" + ref.ID))
	hash := hex.EncodeToString(sum[:])[:20]
	if slug := slugOf(ref.ID); slug != "" {
		return "md-" + slug + "-" + hash
	}
	return "md-" + hash
}

const slugMax = 24

func slugOf(id string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(id) {
		if b.Len() == slugMax {
			break
		}
		if (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9') {
			b.WriteRune(r)
		} else if b.Len() > 0 && !strings.HasSuffix(b.String(), "-") {
			b.WriteByte('-')
		}
	}
	return strings.Trim(b.String(), "-")
}

// IsNameTaken recognises ErrNameTaken in an outbox row's stored last error.
func IsNameTaken(lastError string) bool {
	return strings.Contains(lastError, string(NameTaken))
}
