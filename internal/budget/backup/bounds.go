package backup

import (
	"fmt"
	"time"

	"modeldock.io/internal/budget"
	"modeldock.io/internal/evidence"
	"modeldock.io/internal/modelspec"
	"modeldock.io/internal/traffic"
)

// maxSkew is by how much the clocks of two ModelDocks may differ.
const maxSkew = 24 * time.Hour

// moment is one time of a row; zero: not yet.
type moment struct {
	field string
	at    time.Time
}

// past fails a row that says something happened later than now. It would stay
// the latest for as long, whatever happens here.
func (c *checker) past(subject string, moments ...moment) {
	for _, m := range moments {
		if m.at.After(c.now.Add(maxSkew)) {
			c.fail(subject, "has %s %s, more than %v after this machine's %s: set the clock that is wrong, or wait", m.field, spell(m.at), maxSkew, spell(c.now))
			return
		}
	}
}

// text is one text of a row.
type text struct{ field, value string }

// long fails a row whose texts are shorter or longer than any that is written.
func (c *checker) long(subject string, least, most int, texts ...text) {
	for _, t := range texts {
		if len(t.value) < least || len(t.value) > most {
			c.fail(subject, "has a %s of %d bytes; one has %d to %d", t.field, len(t.value), least, most)
		}
	}
}

// top judges the head.
func (c *checker) top() {
	const s = "the head"
	c.can(s, modelspec.CheckName("incarnation", c.head.Incarnation))
	if c.head.JournalSeq > c.most {
		c.fail(s, "has journalSeq %d; numbers go up to %d, one for each microsecond since 1970", c.head.JournalSeq, c.most)
	}
	c.past(s, moment{"exportedAt", c.head.At})
}

func (c *checker) audit(e budget.AuditEntry) {
	s := fmt.Sprintf("audit entry %d", e.Seq)
	c.numbered(audit, s, e.Seq)
	c.can(s, e.Validate())
	c.past(s, moment{"when", e.When})
}

// chunks judges the proofs of one request. The request need not be there: a
// record may come late, also into an older ledger that was put back.
func (c *checker) chunks(k evidence.Kept) {
	s := "first chunk of " + request(k.Ref)
	c.once(s)
	c.can(s, modelspec.CheckName("tenant", k.Tenant), modelspec.CheckName("id", k.ID))
	for _, chunk := range []traffic.Chunk{k.First, k.Latest} {
		c.long(s, 0, budget.MaxName, text{"requestId", chunk.InferenceID}, text{"endpointUid", chunk.EndpointUID}, text{"caller", chunk.Tenant})
		c.past(s, moment{"sentAt", chunk.SentAt}, moment{"firstByteAt", chunk.FirstByteAt}, moment{"at", chunk.At}, moment{"doneAt", chunk.DoneAt})
	}
}
