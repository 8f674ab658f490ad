package budget

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"fmt"
	"regexp"
	"time"

	"modeldock.io/internal/modelspec"
)

// Sizes of a key's random parts. The id is public and only has to be unique;
// the secret carries 256 bits.
const (
	keyIDBytes     = 10
	keySecretBytes = 32
	keyPrefix      = "mdk_"
)

// MaxKeyLife is how long a key may live that expires at all.
const MaxKeyLife = 10 * 366 * 24 * time.Hour

var (
	keyEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
	idPattern   = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)
	keyPattern  = regexp.MustCompile(`^mdk_([A-Za-z0-9-]{1,64})_([A-Za-z0-9-]{16,128})$`)
)

// MintKey makes a new credential: the text mdk_<id>_<secret>, which is shown
// once, and what the ledger keeps of it. A zero ttl never expires.
func MintKey(role Role, tenant string, now time.Time, ttl time.Duration) (text string, k APIKey) {
	id, secret := make([]byte, keyIDBytes), make([]byte, keySecretBytes)
	// crypto/rand.Read never fails: it ends the process instead.
	_, _ = rand.Read(id)
	_, _ = rand.Read(secret)
	k = APIKey{ID: keyEncoding.EncodeToString(id), Tenant: tenant, Role: role, CreatedAt: now}
	if ttl > 0 {
		k.ExpiresAt = now.Add(ttl)
	}
	plain := keyEncoding.EncodeToString(secret)
	k.SecretHash = sha256.Sum256([]byte(plain))
	return keyPrefix + k.ID + "_" + plain, k
}

// Validate returns an error for a key that nobody can have made.
func (k APIKey) Validate() error {
	if !idPattern.MatchString(k.ID) {
		return fmt.Errorf("the id must be 1 to 64 characters of [A-Za-z0-9-]; it has %d bytes", len(k.ID))
	}
	if k.Role != RoleTenant && k.Role != RoleViewer && k.Role != RoleAdmin {
		return fmt.Errorf("it has the unknown role %q", k.Role)
	}
	if (k.Role == RoleTenant) != (k.Tenant != "") {
		return fmt.Errorf("it has role %q and tenant %q: a tenant's key names a tenant, any other names none", k.Role, k.Tenant)
	}
	if life := k.ExpiresAt.Sub(k.CreatedAt); !k.ExpiresAt.IsZero() && (life <= 0 || life > MaxKeyLife) {
		return fmt.Errorf("it expires at %s and was made at %s; a key that expires lives up to %d days", k.ExpiresAt.Format(time.RFC3339), k.CreatedAt.Format(time.RFC3339), MaxKeyLife/(24*time.Hour))
	}
	if k.Tenant == "" {
		return nil
	}
	return modelspec.CheckName("tenant", k.Tenant)
}

// ParseKey splits the text of a key into its id and the hash of its secret;
// false if it is no key at all.
func ParseKey(text string) (id string, secretHash [32]byte, ok bool) {
	m := keyPattern.FindStringSubmatch(text)
	if m == nil {
		return "", secretHash, false
	}
	return m[1], sha256.Sum256([]byte(m[2])), true
}

// Matches compares a secret's hash with the stored one in constant time. The
// caller still asks Live.
func (k APIKey) Matches(secretHash [32]byte) bool {
	return subtle.ConstantTimeCompare(k.SecretHash[:], secretHash[:]) == 1
}
