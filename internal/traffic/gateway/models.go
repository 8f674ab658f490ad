package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"modeldock.io/internal/traffic"
)

// modelItem is OpenAI's model object.
type modelItem struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

// listModels answers with what the caller may call, under the name by which
// it is called: own models by their short name, others with their owner.
func (g *Gateway) listModels(x *exchange) error {
	view, key, err := g.reader(x)
	if err != nil {
		return err
	}
	list := struct {
		Object string      `json:"object"`
		Data   []modelItem `json:"data"`
	}{Object: "list", Data: []modelItem{}}
	for _, n := range view.visible(key) {
		id := n.owner + "/" + n.name
		if n.owner == key.Tenant {
			id = n.name
		}
		list.Data = append(list.Data, itemOf(id, view.live[n]))
	}
	return x.answerJSON(list)
}

// showModel answers with one model under the id that was asked for.
func (g *Gateway) showModel(x *exchange, id string) error {
	view, key, err := g.reader(x)
	if err != nil {
		return err
	}
	versions, err := view.resolve(key, parseName(id))
	if err != nil {
		return err
	}
	return x.answerJSON(itemOf(id, versions))
}

func (g *Gateway) reader(x *exchange) (*index, *traffic.Key, error) {
	view, err := g.known()
	if err != nil {
		return nil, nil, err
	}
	key, err := g.authenticate(view, x.r)
	if err == nil {
		x.caller(key)
	}
	return view, key, err
}

// itemOf describes versions of one name, of which there is at least one.
func itemOf(id string, versions []*traffic.Model) modelItem {
	item := modelItem{ID: id, Object: "model", OwnedBy: versions[0].Owner}
	for _, m := range versions {
		if !m.CreatedAt.IsZero() && (item.Created == 0 || m.CreatedAt.Unix() < item.Created) {
			item.Created = m.CreatedAt.Unix()
		}
	}
	return item
}

func (x *exchange) answerJSON(v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	h := x.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	x.start(http.StatusOK)
	return x.send(body)
}
