package budget

import (
	"fmt"
	"time"

	"modeldock.io/internal/modelspec"
)

// Grant is the permission of Grantee to call Owner's model.
type Grant struct {
	Owner   string
	Model   string
	Grantee string
	At      time.Time
}

// EndedGrant is a grant that is over. A model's name alone never comes to mean
// another owner's model because of that, until the grantee has declined this
// one. What was declined its owner cannot grant again.
type EndedGrant struct {
	Grant
	EndedAt  time.Time
	Declined bool // by its grantee; else it was taken back
}

// DeclinedError says that the grantee does not want what is granted. Nothing
// was changed.
type DeclinedError struct {
	Grant Grant
	At    time.Time // when it was declined
}

func (e *DeclinedError) Error() string {
	return fmt.Sprintf("tenant %s declined the grant of %s/%s on %s; only an admin can grant it again",
		e.Grant.Grantee, e.Grant.Owner, e.Grant.Model, e.At.Format(time.DateTime))
}

// Validate returns a *modelspec.FieldError unless g names an owner, a model
// and another tenant.
func (g Grant) Validate() error {
	for _, n := range []struct{ field, name string }{{"owner", g.Owner}, {"model", g.Model}, {"grantee", g.Grantee}} {
		if err := modelspec.CheckName(n.field, n.name); err != nil {
			return err
		}
	}
	if g.Owner == g.Grantee {
		return &modelspec.FieldError{Field: "grantee", Message: fmt.Sprintf("tenant %s needs no grant for its own model %s", g.Owner, g.Model)}
	}
	return nil
}
