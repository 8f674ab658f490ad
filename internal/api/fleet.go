package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/modelspec"
)

// ListModels answers the served models that the caller may call.
func (s handlers) ListModels(c *gin.Context) {
	models, err := s.served(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, openapi.ModelList{Items: models})
}

// GetModel answers one of them.
func (s handlers) GetModel(c *gin.Context, owner, name string) {
	models, err := s.served(c)
	if err != nil {
		s.fail(c, err)
		return
	}
	for _, m := range models {
		if m.Owner == owner && m.Name == name {
			c.JSON(http.StatusOK, m)
			return
		}
	}
	s.fail(c, budget.ErrNotFound)
}

// served groups the live reservations that the caller may see by owner and name.
func (s *Server) served(c *gin.Context) ([]openapi.ServedModel, error) {
	grants, err := s.Ledger.Grants(c.Request.Context())
	if err != nil {
		return nil, fmt.Errorf("read the grants: %w", err)
	}
	live, err := s.Ledger.List(c.Request.Context(), budget.Filter{State: budget.Reserved})
	if err != nil {
		return nil, fmt.Errorf("list the live requests: %w", err)
	}
	out := []openapi.ServedModel{}
	for _, r := range live {
		if !r.ReleaseRequestedAt.IsZero() || !mayCall(who(c), r, grants) {
			continue
		}
		v := s.version(c.Request.Context(), r)
		if p := who(c); !p.readsAll() && p.Tenant != r.Tenant {
			v = forGrantee(v)
		}
		i := slices.IndexFunc(out, func(m openapi.ServedModel) bool { return m.Owner == r.Tenant && m.Name == r.Model.Name })
		if i < 0 {
			out = append(out, openapi.ServedModel{Owner: r.Tenant, Name: r.Model.Name})
			i = len(out) - 1
		}
		out[i].Versions = append(out[i].Versions, v)
	}
	slices.SortFunc(out, func(a, b openapi.ServedModel) int {
		return strings.Compare(a.Owner+"/"+a.Name, b.Owner+"/"+b.Name)
	})
	return out, nil
}

// forGrantee leaves out what is the owner's business: its engine's output, its
// request and where its replicas are.
func forGrantee(v openapi.ModelVersion) openapi.ModelVersion {
	v.RequestId, v.Message, v.Endpoints = "", nil, []openapi.Endpoint{}
	return v
}

func mayCall(p Principal, r budget.Reservation, grants []budget.Grant) bool {
	return p.readsAll() || r.Tenant == p.Tenant || slices.ContainsFunc(grants, func(g budget.Grant) bool {
		return g.Owner == r.Tenant && g.Model == r.Model.Name && g.Grantee == p.Tenant
	})
}

func (s *Server) version(ctx context.Context, r budget.Reservation) openapi.ModelVersion {
	simulated := r.Model.Engine == modelspec.EngineSimulated
	v := openapi.ModelVersion{
		Version: r.Model.Version, RequestId: r.ID, Engine: some(string(r.Model.Engine)), Simulated: &simulated,
		Weight: r.Model.Traffic.Weight, Replicas: r.Funded, Queue: s.Load.Queue(r.Ref), Endpoints: []openapi.Endpoint{},
	}
	if st, err := s.Target.Observe(ctx, r.Ref); err == nil {
		v.ReadyReplicas, v.Reason, v.Message = st.Ready, some(string(st.Reason)), some(st.Message)
	}
	endpoints, _ := s.Load.Endpoints(r.Ref) // those that are known: evidence says what could not be read
	for _, e := range endpoints {
		n := s.Load.InFlight(e.UID)
		v.InFlight += n
		v.Endpoints = append(v.Endpoints, openapi.Endpoint{Uid: e.UID, Address: e.Address, Node: some(e.Node), Card: some(e.Card), Ready: true, InFlight: n})
	}
	return v
}

// ListNodes answers nodes and cards; other tenants' names are blank for a tenant.
func (s handlers) ListNodes(c *gin.Context) {
	nodes, err := s.Fleet.Nodes(c.Request.Context())
	if err != nil {
		s.fail(c, err)
		return
	}
	if p := who(c); !p.readsAll() {
		blankOthers(nodes, p.Tenant)
	}
	c.JSON(http.StatusOK, openapi.NodeList{Items: nodes})
}

func blankOthers(nodes []openapi.Node, tenant string) {
	for _, n := range nodes {
		for _, card := range n.Cards {
			for i := range card.Allocations {
				if a := &card.Allocations[i]; a.Tenant != tenant {
					a.Tenant, a.RequestId = "", ""
				}
			}
		}
	}
}

// maxTail bounds the lines that ?tail= may ask for.
const maxTail = 10_000

// GetLogs streams the engine's output.
func (s handlers) GetLogs(c *gin.Context, id openapi.ID, params openapi.GetLogsParams) {
	ref, ok := s.existing(c, id, params.Tenant)
	if !ok {
		return
	}
	tail := value(params.Tail, -1)
	if params.Tail != nil && (tail < 0 || tail > maxTail) {
		s.fail(c, invalid("tail", "tail must be an integer from 0 to %d; got %d", maxTail, tail))
		return
	}
	follow, ctx := follows(c), c.Request.Context()
	if follow {
		leave, err := takeStream(s.following, who(c).KeyID, "followed logs")
		if err != nil {
			s.fail(c, err)
			return
		}
		defer leave()
		var end func()
		ctx, end = s.untilRefused(c)
		defer end()
		ctx, end = s.Hub.untilClosed(ctx)
		defer end()
	}
	replica, err := s.replicaNamed(c.Request.Context(), ref, value(params.Replica, ""))
	if err != nil {
		s.fail(c, err)
		return
	}
	logs, err := s.Target.Logs(ctx, ref, replica, tail, follow)
	if errors.Is(err, budget.ErrNotFound) {
		err = notFound("%s", err.Error()) // the request is there, its output is not
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	defer func() { _ = logs.Close() }()
	c.Header("Content-Type", "text/plain; charset=utf-8")
	c.Header("X-Content-Type-Options", "nosniff")
	c.Status(http.StatusOK)
	copyFlushing(c.Writer, logs)
	if why := refusal(ctx); why != nil {
		_, _ = io.WriteString(c.Writer, lastWords(why.Error()))
	} else if follow && s.Hub.isClosed() {
		_, _ = io.WriteString(c.Writer, lastWords("this process stops; follow again"))
	}
}

// replicaNamed turns a replica's UID, which explain and trace tell, into its
// name; anything else is left for the target to judge.
func (s *Server) replicaNamed(ctx context.Context, ref budget.Ref, replica string) (string, error) {
	if replica == "" {
		return "", nil
	}
	st, err := s.Target.Observe(ctx, ref)
	if err != nil {
		return "", fmt.Errorf("look for the replica: %w", err)
	}
	for _, r := range st.Replicas {
		if r.UID == replica {
			return r.Name, nil
		}
	}
	return replica, nil
}

// copyFlushing passes output on as it appears; the reader ends with the
// request's context.
func copyFlushing(w gin.ResponseWriter, r io.Reader) {
	buf := make([]byte, 16<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return
			}
			w.Flush()
		}
		if err != nil {
			return
		}
	}
}
