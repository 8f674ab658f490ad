package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/modelspec"
	"modeldock.io/internal/strictjson"
)

const (
	defaultPage = 100
	maxPage     = 1000
	// maxScanned bounds the rows whose reason one call derives: the rest is the
	// next page's.
	maxScanned = 2 * maxPage
)

// body reads and strictly decodes a request body.
func body(c *gin.Context, out any) error {
	data, err := readBody(c)
	if err != nil {
		return err
	}
	return strictjson.Decode(data, out)
}

func readBody(c *gin.Context) ([]byte, error) {
	data, err := io.ReadAll(c.Request.Body)
	var size *http.MaxBytesError
	if errors.Is(err, os.ErrDeadlineExceeded) {
		hangUp(c)
		return nil, &problem{http.StatusRequestTimeout, codeTooSlow, fmt.Sprintf("the body did not arrive in time: %d bytes came, and the rest was not there when its time was up; send it again at once", len(data)), ""}
	}
	if err != nil && !errors.As(err, &size) {
		return nil, invalid("", "the body could not be read to its end")
	}
	return data, err
}

// SubmitRequest stores a request, or returns the one that is there.
func (s handlers) SubmitRequest(c *gin.Context) {
	var in openapi.Submit
	if err := body(c, &in); err != nil {
		s.fail(c, err)
		return
	}
	tenant, err := payer(who(c), in)
	if err != nil {
		s.fail(c, err)
		return
	}
	sub, err := submissionOf(tenant, in)
	if err != nil {
		s.fail(c, err)
		return
	}
	if err := s.permit(c.Request.Context(), sub); err != nil {
		s.fail(c, err)
		return
	}
	r, err := s.Ledger.Submit(c.Request.Context(), sub)
	err = withoutSecrets(err)
	if err != nil || r.Submits == 1 { // the same submit again stores nothing
		c.Set(concernedKey, sub.Tenant)
		s.audit(c, "", err, sub.Tenant+"/"+sub.ID)
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	location := "/requests/" + r.ID
	if who(c).readsAll() {
		location += "?tenant=" + r.Tenant // names need no escaping
	}
	c.Header("Location", location)
	s.answer(c, http.StatusAccepted, r)
}

// payer takes the tenant from the credential; only an admin names one.
func payer(p Principal, in openapi.Submit) (string, error) {
	switch {
	case p.Role == budget.RoleViewer:
		return "", forbidden("a viewer key may only read")
	case p.admin() && in.Tenant == nil:
		return "", invalid("tenant", `an admin key belongs to no tenant: say who pays with "tenant"`)
	case p.admin():
		return *in.Tenant, modelspec.CheckName("tenant", *in.Tenant)
	case in.Tenant != nil && *in.Tenant != p.Tenant:
		return "", &problem{http.StatusForbidden, codeForbidden, "the tenant comes from the key; leave \"tenant\" out", "tenant"}
	default:
		return p.Tenant, nil
	}
}

// permit checks the tenant's highest priority, its allow lists and how much it
// has stored. A request that is already there is not judged again: the same
// submit must stay the same answer.
func (s *Server) permit(ctx context.Context, sub budget.Submission) error {
	if _, err := s.Ledger.Get(ctx, sub.Ref); err == nil {
		return nil
	}
	if err := s.CheckSource(sub.Model); err != nil {
		return err
	}
	if err := s.checkScaling(sub.Model.Scaling); err != nil {
		return err
	}
	t, err := s.Ledger.Tenant(ctx, sub.Tenant)
	if errors.Is(err, budget.ErrNotFound) {
		t = budget.Tenant{Name: sub.Tenant}
	} else if err != nil {
		return fmt.Errorf("read the tenant: %w", err)
	}
	if err := errors.Join(checkPriority(t, sub.Priority), checkPool(t, sub.Pool)); err != nil {
		return err
	}
	if err := checkAllowed(t, sub.Model, s.ArgsOutside(sub.Model, allowedArgs(t.Engines)), s.OnLoopback); err != nil {
		return err
	}
	return s.stored.submit(ctx, sub.Tenant)
}

// GetRequest answers one record.
func (s handlers) GetRequest(c *gin.Context, id openapi.ID, params openapi.GetRequestParams) {
	ref, err := s.ref(c, id, params.Tenant)
	if err != nil {
		s.fail(c, err)
		return
	}
	r, err := s.Ledger.Get(c.Request.Context(), ref)
	if err != nil {
		s.fail(c, err)
		return
	}
	s.answer(c, http.StatusOK, r)
}

// answer writes the record of r.
func (s *Server) answer(c *gin.Context, status int, r budget.Reservation) {
	rec, err := s.record(c.Request.Context(), r)
	if err != nil {
		s.fail(c, err)
		return
	}
	c.JSON(status, rec)
}

// ListRequests answers records in arrival order.
func (s handlers) ListRequests(c *gin.Context, params openapi.ListRequestsParams) {
	f, reason, err := filterOf(who(c), params)
	if err != nil {
		s.fail(c, err)
		return
	}
	out := openapi.RequestList{Items: []openapi.Request{}}
	page := f.Limit
	step := page
	if reason != "" {
		step = maxPage // reasons are derived, so that rows are read and passed over
	}
	for scanned := 0; ; scanned += step {
		if scanned >= maxScanned {
			out.Next = strconv.FormatInt(f.AfterSeq, 10)
			c.JSON(http.StatusOK, out)
			return
		}
		f.Limit = step + 1 // one more tells whether there is a next page
		rows, err := s.Ledger.List(c.Request.Context(), f)
		if err != nil {
			s.fail(c, err)
			return
		}
		recs, err := s.records(c.Request.Context(), rows)
		if err != nil {
			s.fail(c, err)
			return
		}
		for i, rec := range recs {
			if len(out.Items) == page {
				out.Next = strconv.FormatInt(f.AfterSeq, 10)
				c.JSON(http.StatusOK, out)
				return
			}
			f.AfterSeq = rows[i].Seq
			if reason == "" || value(rec.Reason, "") == reason {
				out.Items = append(out.Items, rec)
			}
		}
		if len(rows) <= step {
			c.JSON(http.StatusOK, out)
			return
		}
	}
}

func filterOf(p Principal, in openapi.ListRequestsParams) (f budget.Filter, reason string, err error) {
	f = budget.Filter{Tenant: p.Tenant, Model: value(in.Model, ""), Limit: value(in.Limit, defaultPage)}
	if in.Tenant != nil && *in.Tenant != "" {
		if !p.readsAll() && *in.Tenant != p.Tenant {
			return f, "", forbidden("a tenant key lists its own requests; leave ?tenant= out")
		}
		f.Tenant = *in.Tenant
	}
	if f.Limit < 1 || f.Limit > maxPage {
		return f, "", invalid("limit", "limit must be an integer from 1 to %d; got %d", maxPage, f.Limit)
	}
	if in.State != nil {
		if !in.State.Valid() {
			return f, "", invalid("state", "state must be one of waiting, reserved, released, expired; got %q", *in.State)
		}
		f.State = budget.State(*in.State)
	}
	if in.After != nil && *in.After != "" {
		if f.AfterSeq, err = strconv.ParseInt(*in.After, 10, 64); err != nil || f.AfterSeq < 0 {
			return f, "", invalid("after", "after must be the \"next\" of an earlier page")
		}
	}
	return f, value(in.Reason, ""), nil
}

// ReleaseRequest asks for the end of a request.
func (s handlers) ReleaseRequest(c *gin.Context, id openapi.ID, params openapi.ReleaseRequestParams) {
	s.release(c, id, params.Tenant, value(params.Force, false))
}

// DeleteRequest is the same as release.
func (s handlers) DeleteRequest(c *gin.Context, id openapi.ID, params openapi.DeleteRequestParams) {
	s.release(c, id, params.Tenant, value(params.Force, false))
}

func (s *Server) release(c *gin.Context, id string, tenant *string, force bool) {
	ref, err := s.writable(c, id, tenant)
	if err != nil {
		s.fail(c, err)
		return
	}
	why, err := releaseReason(c, force)
	if err != nil {
		s.fail(c, err)
		return
	}
	if err := s.stillStanding(); force && err != nil {
		s.fail(c, err)
		return
	}
	before, err := s.Ledger.Get(c.Request.Context(), ref)
	if err != nil {
		s.fail(c, err)
		return
	}
	r, err := s.Ledger.RequestRelease(c.Request.Context(), ref)
	if err != nil || r.Revision != before.Revision {
		s.audit(c, why, err)
	}
	if err == nil && force && r.State == budget.Reserved {
		r, err = s.forceCredit(c, ref, why)
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	s.answer(c, http.StatusAccepted, r)
}

// releaseReason reads why a release is asked for. The body may be absent;
// force is an admin's and needs the reason.
func releaseReason(c *gin.Context, force bool) (string, error) {
	if force && !who(c).admin() {
		return "", forbidden("only an admin key may force a release")
	}
	var in openapi.ReleaseReason
	data, err := readBody(c)
	if err == nil && len(bytes.TrimSpace(data)) > 0 {
		err = strictjson.Decode(data, &in)
	}
	if err != nil {
		return "", err
	}
	why := value(in.Why, "")
	switch {
	case force && strings.TrimSpace(why) == "":
		return "", invalid("why", `a forced release needs the reason: send {"why":"…"}`)
	case len(why) > auditText:
		return "", invalid("why", "why must have at most %d bytes; got %d", auditText, len(why))
	}
	return why, nil
}

// forceCredit gives the slots back without waiting for the last process. The
// reason is on record before: without the row nothing is given back.
func (s *Server) forceCredit(c *gin.Context, ref budget.Ref, why string) (budget.Reservation, error) {
	if err := s.appendAudit(c, why, nil, "force credit"); err != nil {
		return budget.Reservation{}, err
	}
	r, err := s.Ledger.Credit(c.Request.Context(), ref, true)
	if err != nil {
		s.audit(c, why, err, "force credit")
	}
	return r, err
}

// GetJournal answers the debits and credits of one request.
func (s handlers) GetJournal(c *gin.Context, id openapi.ID, params openapi.GetJournalParams) {
	ref, ok := s.existing(c, id, params.Tenant)
	if !ok {
		return
	}
	entries, err := s.Ledger.Journal(c.Request.Context(), ref)
	if err != nil {
		s.fail(c, err)
		return
	}
	out := openapi.JournalList{Items: []openapi.JournalEntry{}}
	for _, e := range entries {
		out.Items = append(out.Items, openapi.JournalEntry{Revision: e.Revision, Op: openapi.JournalEntryOp(e.Op), Slots: e.Slots, Pool: e.Pool, At: wire(e.At)})
	}
	c.JSON(http.StatusOK, out)
}
