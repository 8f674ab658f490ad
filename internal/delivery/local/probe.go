package local

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"modeldock.io/internal/delivery"
	"modeldock.io/internal/delivery/engine"
)

// maxProbeBody bounds what an engine can make us read.
const maxProbeBody = 1 << 20

// prober asks an engine how it is. It follows no redirect and uses no proxy:
// what answers must be the process itself.
type prober struct {
	base string
	user int // whose process must answer; 0: anybody's
}

// dial connects to the engine of the user, and to nobody else.
func (p prober) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil || p.user == 0 {
		return c, err //nolint:wrapcheck // it names the address
	}
	if err := CheckEngine(c, p.user); err != nil {
		_ = c.Close() // nothing was sent
		return nil, err
	}
	return c, nil
}

func (p prober) health(ctx context.Context, path string) error {
	status, _, err := p.get(ctx, path)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("GET %s answers %d", path, status)
	}
	return nil
}

// identity returns what the engine says it serves, as "model (owned by …)".
// An engine that lists other models is not the one that was asked for; only
// custom engines may be silent.
func (p prober) identity(ctx context.Context, plan engine.Plan) (string, error) {
	status, body, err := p.get(ctx, plan.IdentityPath)
	if err != nil {
		return "", err
	}
	var list struct {
		Data []struct {
			ID      string `json:"id"`
			OwnedBy string `json:"owned_by"`
		} `json:"data"`
	}
	if status != http.StatusOK || json.Unmarshal(body, &list) != nil {
		if plan.NeedsName {
			return "", fmt.Errorf("GET %s answers %d and no list of models", plan.IdentityPath, status)
		}
		return fmt.Sprintf("unknown (GET %s answers %d)", plan.IdentityPath, status), nil
	}
	var ids []string
	for _, m := range list.Data {
		ids = append(ids, m.ID)
		if m.ID == plan.Upstream || m.ID == plan.Upstream+":latest" {
			return delivery.Identity(m.ID, m.OwnedBy), nil
		}
	}
	if plan.NeedsName {
		return "", fmt.Errorf("the engine serves %s and not %q", delivery.Identity(fmt.Sprintf("%q", ids), ""), plan.Upstream)
	}
	if len(list.Data) == 0 {
		return "unknown (it lists no model)", nil
	}
	slices.Sort(ids)
	return delivery.Identity(ids[0], ""), nil
}

// asleep asks an engine whether it sleeps.
func (p prober) asleep(ctx context.Context, s *engine.Sleeper) (bool, error) {
	status, body, err := p.get(ctx, s.StatePath)
	if err != nil {
		return false, err
	}
	if status != http.StatusOK {
		return false, fmt.Errorf("GET %s answers %d", s.StatePath, status)
	}
	return s.IsAsleep(body)
}

// tell has the engine do something that may take as long as atMost.
func (p prober) tell(ctx context.Context, path string, atMost time.Duration) error {
	status, body, err := p.ask(ctx, http.MethodPost, path, atMost)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("POST %s answers %d: %.200s", path, status, body)
	}
	return nil
}

func (p prober) get(ctx context.Context, path string) (int, []byte, error) {
	return p.ask(ctx, http.MethodGet, path, probeTimeout)
}

func (p prober) ask(ctx context.Context, method, path string, atMost time.Duration) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	what := method + " " + path
	req, err := http.NewRequestWithContext(ctx, method, p.base+path, nil)
	if err != nil {
		return 0, nil, fmt.Errorf("ask %s: %w", what, err)
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, DialContext: p.dial},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       atMost + time.Second,
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("ask %s: %w", what, err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxProbeBody))
	if err != nil {
		return 0, nil, fmt.Errorf("ask %s: %w", what, err)
	}
	return res.StatusCode, body, nil
}
