package backup

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"time"

	"modeldock.io/internal/api/wiretime"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/evidence"
	"modeldock.io/internal/modelspec"
	"modeldock.io/internal/traffic"
)

// The rows as they are spelled in the document: every column of the ledger.
// Times are RFC 3339 in UTC with microseconds; one that is left out is "not yet".

type tenantRow struct {
	Tenant  string   `json:"tenant"`
	Cap     int64    `json:"cap"`
	Used    int64    `json:"used"`
	Engines []string `json:"engines"`
	Pools   []string `json:"pools"`
	// Limits are left out where nothing is limited, as in older documents.
	Limits *budget.Limits `json:"limits,omitempty"`
}

type poolRow struct {
	Pool string `json:"pool"`
	Cap  int64  `json:"cap"`
	Used int64  `json:"used"`
	// Warm is left out where nothing is kept, as in older documents. What that
	// cost today is not copied.
	Warm *modelspec.WarmPool `json:"warm,omitempty"`
}

type reservationRow struct {
	Seq                int64           `json:"seq"`
	Tenant             string          `json:"tenant"`
	ID                 string          `json:"id"`
	Revision           int64           `json:"revision"`
	Generation         int64           `json:"generation"`
	Cost               int64           `json:"cost"`
	Priority           int             `json:"priority"`
	Model              modelspec.Model `json:"model"`
	SpecHash           string          `json:"specHash"`
	State              string          `json:"state"`
	Pool               string          `json:"pool"`
	Node               string          `json:"node,omitempty"`
	Held               int64           `json:"held"`
	Funded             int             `json:"fundedReplicas"`
	Submits            int64           `json:"submits"`
	CreatedAt          string          `json:"createdAt"`
	ReservedAt         string          `json:"reservedAt,omitempty"`
	ReleaseRequestedAt string          `json:"releaseRequestedAt,omitempty"`
	ReleasedAt         string          `json:"releasedAt,omitempty"`
	ExpiresAt          string          `json:"expiresAt"`
}

type entryRow struct {
	Seq      int64  `json:"seq"`
	Tenant   string `json:"tenant"`
	ID       string `json:"id"`
	Pool     string `json:"pool"`
	Op       string `json:"op"`
	Revision int64  `json:"revision"`
	Slots    int64  `json:"slots"`
	At       string `json:"at"`
}

type intentRow struct {
	Seq           int64           `json:"seq"`
	Tenant        string          `json:"tenant"`
	ID            string          `json:"id"`
	Op            string          `json:"op"`
	Generation    int64           `json:"generation"`
	Model         modelspec.Model `json:"model"`
	Funded        int             `json:"fundedReplicas"`
	Attempts      int64           `json:"attempts"`
	NextAttemptAt string          `json:"nextAttemptAt"`
	LeaseOwner    string          `json:"leaseOwner,omitempty"`
	LeaseUntil    string          `json:"leaseUntil,omitempty"`
	DeliveredAt   string          `json:"deliveredAt,omitempty"`
	LastError     string          `json:"lastError,omitempty"`
}

type bindingRow struct {
	Tenant       string `json:"tenant"`
	ID           string `json:"id"`
	Namespace    string `json:"namespace"`
	Name         string `json:"name"`
	UID          string `json:"uid"`
	BoundAt      string `json:"boundAt"`
	FirstReadyAt string `json:"firstReadyAt,omitempty"`
	GoneAt       string `json:"goneAt,omitempty"`
}

type keyRow struct {
	ID         string `json:"id"`
	Tenant     string `json:"tenant,omitempty"`
	Role       string `json:"role"`
	SecretHash string `json:"secretSha256"` // of the secret, never the secret
	CreatedAt  string `json:"createdAt"`
	ExpiresAt  string `json:"expiresAt,omitempty"`
	RevokedAt  string `json:"revokedAt,omitempty"`
	LastUsedAt string `json:"lastUsedAt,omitempty"`
}

type grantRow struct {
	Owner    string `json:"owner"`
	Model    string `json:"model"`
	Grantee  string `json:"grantee"`
	At       string `json:"at"`
	EndedAt  string `json:"endedAt,omitempty"`
	Declined bool   `json:"declined,omitempty"`
}

type auditRow struct {
	Seq    int64  `json:"seq"`
	Who    string `json:"who"`
	What   string `json:"what"`
	When   string `json:"when"`
	Why    string `json:"why,omitempty"`
	Result string `json:"result"`
	Tenant string `json:"tenant,omitempty"`
	Source string `json:"source,omitempty"`
}

type keptRow struct {
	Tenant string   `json:"tenant"`
	ID     string   `json:"id"`
	First  chunkRow `json:"first"`
	Latest chunkRow `json:"latest"`
}

type chunkRow struct {
	RequestID   string `json:"requestId"`
	EndpointUID string `json:"endpointUid"`
	Caller      string `json:"caller"`
	SentAt      string `json:"sentAt,omitempty"`
	FirstByteAt string `json:"firstByteAt,omitempty"`
	At          string `json:"at"`
	DoneAt      string `json:"doneAt,omitempty"`
}

// wireOf spells a row and names its section.
func wireOf(r budget.Row) (section string, wire any, err error) {
	switch r := r.(type) {
	case budget.Tenant:
		return tenants, tenantRow{r.Name, r.Cap, r.Used, listed(r.Engines), listed(r.Pools), limited(r.Limits)}, nil
	case budget.Pool:
		return pools, poolRow{r.Name, r.Cap, r.Used, r.Warm}, nil
	case budget.Reservation:
		return reservations, reservationRow{
			r.Seq, r.Tenant, r.ID, r.Revision, r.Generation, r.Cost, r.Priority, r.Model, r.SpecHash, string(r.State), r.Pool, r.Node, r.Held, r.Funded, r.Submits,
			spell(r.CreatedAt), spell(r.ReservedAt), spell(r.ReleaseRequestedAt), spell(r.ReleasedAt), spell(r.ExpiresAt),
		}, nil
	case budget.Entry:
		return journal, entryRow{r.Seq, r.Tenant, r.ID, r.Pool, string(r.Op), r.Revision, r.Slots, spell(r.At)}, nil
	case budget.Intent:
		return outbox, intentRow{
			r.Seq, r.Tenant, r.ID, string(r.Op), r.Generation, r.Model, r.Funded, r.Attempts, spell(r.NextAttemptAt),
			r.LeaseOwner, spell(r.LeaseUntil), spell(r.DeliveredAt), r.LastError,
		}, nil
	case budget.Binding:
		return bindings, bindingRow{r.Tenant, r.ID, r.Namespace, r.Name, r.UID, spell(r.BoundAt), spell(r.FirstReadyAt), spell(r.GoneAt)}, nil
	case budget.APIKey:
		return keys, keyRow{
			r.ID, r.Tenant, string(r.Role), hex.EncodeToString(r.SecretHash[:]),
			spell(r.CreatedAt), spell(r.ExpiresAt), spell(r.RevokedAt), spell(r.LastUsedAt),
		}, nil
	case budget.Grant:
		return grants, grantRow{Owner: r.Owner, Model: r.Model, Grantee: r.Grantee, At: spell(r.At)}, nil
	case budget.EndedGrant:
		return grants, grantRow{r.Owner, r.Model, r.Grantee, spell(r.At), spell(r.EndedAt), r.Declined}, nil
	case budget.AuditEntry:
		return audit, auditRow{r.Seq, r.Who, r.What, spell(r.When), r.Why, r.Result, r.Tenant, r.Source}, nil
	case evidence.Kept:
		return firstChunks, keptRow{r.Tenant, r.ID, chunkWire(r.First), chunkWire(r.Latest)}, nil
	}
	return "", nil, fmt.Errorf("a copy has no section for rows of the kind %T", r)
}

func chunkWire(c traffic.Chunk) chunkRow {
	return chunkRow{c.InferenceID, c.EndpointUID, c.Tenant, spell(c.SentAt), spell(c.FirstByteAt), spell(c.At), spell(c.DoneAt)}
}

func limited(l budget.Limits) *budget.Limits {
	if reflect.DeepEqual(l, budget.Limits{}) {
		return nil
	}
	return &l
}

func listed(names []string) []string { return append([]string{}, names...) }

func spell(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(wiretime.Layout)
}
