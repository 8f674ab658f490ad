package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/modelspec"
)

// PatchRequest changes parts of a live request's model.
func (s handlers) PatchRequest(c *gin.Context, id openapi.ID, params openapi.PatchRequestParams) {
	ref, err := s.writable(c, id, params.Tenant)
	if err != nil {
		s.fail(c, err)
		return
	}
	var in openapi.Patch
	if err := body(c, &in); err != nil {
		s.fail(c, err)
		return
	}
	p, err := s.patchOf(c.Request.Context(), ref, in)
	if err != nil {
		s.fail(c, asWritten(err))
		return
	}
	if err := s.stillStanding(); err != nil {
		s.fail(c, err)
		return
	}
	r, err := s.Ledger.Patch(c.Request.Context(), ref, p)
	if err != nil || r.Generation != p.Generation {
		s.audit(c, "", err, patchDetails(p))
	}
	if err != nil {
		s.fail(c, asWritten(err))
		return
	}
	s.answer(c, http.StatusOK, r)
}

// patchOf merges what was sent into what the request says now. The ledger
// refuses the result if the request changes before it gets there.
func (s *Server) patchOf(ctx context.Context, ref budget.Ref, in openapi.Patch) (budget.Patch, error) {
	p := budget.Patch{Generation: in.Generation}
	r, err := s.Ledger.Get(ctx, ref)
	if err != nil {
		return p, err
	}
	// Whatever refuses the change as a whole comes before what it says.
	if _, err := budget.NextPatch(r, p); err != nil {
		return p, err
	}
	if in.Replicas != nil {
		p.Replicas = mergedReplicas(r.Model.Replicas, *in.Replicas)
	}
	if in.Scaling != nil {
		p.Scaling = mergedScaling(r.Model.Scaling, *in.Scaling)
		if err := s.checkScaling(p.Scaling); err != nil {
			return p, err
		}
	}
	if in.Traffic != nil {
		p.Traffic = &modelspec.Traffic{Weight: value(in.Traffic.Weight, r.Model.Traffic.Weight)}
	}
	if in.Cache != nil {
		merged := mergedCache(r.Model.Cache, *in.Cache)
		p.Cache = &merged
	}
	if in.ColdStart != nil {
		merged := mergedColdStart(r.Model.ColdStart, *in.ColdStart)
		p.ColdStart = &merged
	}
	return p, nil
}

// mergedReplicas lets a max that is left out follow a min above it.
func mergedReplicas(now modelspec.Replicas, in openapi.PatchedReplicas) *modelspec.Replicas {
	least := value(in.Min, now.Min)
	return &modelspec.Replicas{Min: least, Max: value(in.Max, max(now.Max, least))}
}

// asWritten names a field as it stands in a patch's body, which has no model.
func asWritten(err error) error {
	var field *modelspec.FieldError
	var p *problem
	strip := func(text string) string { return strings.ReplaceAll(text, "model.", "") }
	switch {
	case errors.As(err, &field):
		return &modelspec.FieldError{Field: strip(field.Field), Message: strip(field.Message)}
	case errors.As(err, &p):
		return &problem{p.status, p.code, p.message, strip(p.field)}
	}
	return err
}

// patchDetails says in the audit what was asked for.
func patchDetails(p budget.Patch) string {
	text := fmt.Sprintf("generation %d", p.Generation)
	if p.Replicas != nil {
		text += fmt.Sprintf(", replicas %d to %d", p.Replicas.Min, p.Replicas.Max)
	}
	if p.Scaling != nil {
		text += fmt.Sprintf(", scaling by %s, paused %t", modelspec.Model{Scaling: p.Scaling}.Acts(), p.Scaling.Paused)
	}
	if p.Traffic != nil {
		text += fmt.Sprintf(", weight %d", p.Traffic.Weight)
	}
	if p.Cache != nil {
		text += fmt.Sprintf(", cache %t for %d s", p.Cache.Enabled, p.Cache.TTLSeconds)
	}
	if p.ColdStart != nil {
		text += fmt.Sprintf(", cold start %d s and %d waiting", p.ColdStart.TimeoutSeconds, p.ColdStart.MaxWaiting)
	}
	return text
}
