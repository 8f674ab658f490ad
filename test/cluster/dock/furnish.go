package dock

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
)

// furnish makes the two tenants of the demonstration, with a key for each.
func (d *Dock) furnish(ctx context.Context) error {
	for _, tenant := range []string{"team-a", "team-b"} {
		if err := d.call(ctx, http.MethodPut, "/tenants/"+tenant+"/quota", map[string]any{"cap": d.options.TenantCap}, nil); err != nil {
			return err
		}
		if err := d.call(ctx, http.MethodPut, "/tenants/"+tenant+"/engines", map[string]any{"allow": []string{"*"}}, nil); err != nil {
			return err
		}
		var key struct{ Key string }
		if err := d.call(ctx, http.MethodPost, "/keys", map[string]any{"tenant": tenant, "role": "tenant"}, &key); err != nil {
			return err
		}
		d.Keys[tenant] = key.Key
	}
	return nil
}

// call is one call of the management API as its admin.
func (d *Dock) call(ctx context.Context, method, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, d.Controllers[0].URL+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+d.Keys["admin"])
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s %s answered %s: %s", method, path, resp.Status, answer)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}

// describe leaves keys.json and urls.json for people and their scripts.
func (d *Dock) describe() error {
	for name, v := range map[string]any{
		"keys.json": d.Keys,
		"urls.json": map[string]string{"api": d.Controllers[0].URL, "gateway": d.Gateways[0].URL},
	} {
		text, err := json.MarshalIndent(v, "", "  ")
		if err == nil {
			err = os.WriteFile(filepath.Join(d.options.Dir, name), append(text, '\n'), 0o600)
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}
