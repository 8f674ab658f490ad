package simulated

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
)

// rerank orders documents by how many words they share with the query.
func (e *Engine) rerank(w http.ResponseWriter, r *http.Request, in request) {
	if in.Query == "" || len(in.Documents) == 0 {
		fail(w, http.StatusBadRequest, "invalid_request_error", "query and documents must be given")
		return
	}
	if !e.pace(r.Context(), 0) {
		e.metrics.cancelled.Inc()
		return
	}
	type result struct {
		Index    int               `json:"index"`
		Document map[string]string `json:"document"`
		Score    float64           `json:"relevance_score"`
	}
	asked := strings.Fields(strings.ToLower(in.Query))
	tokens, results := len(asked), make([]result, len(in.Documents))
	for i, text := range in.Documents {
		words := strings.Fields(strings.ToLower(text))
		shared := 0
		for _, word := range asked {
			if slices.Contains(words, word) {
				shared++
			}
		}
		tokens += len(words)
		results[i] = result{Index: i, Document: map[string]string{"text": text}, Score: float64(shared) / float64(max(1, len(asked)))}
	}
	slices.SortStableFunc(results, func(a, b result) int { return cmp.Compare(b.Score, a.Score) })
	if in.TopN > 0 {
		results = results[:min(in.TopN, len(results))]
	}
	e.metrics.prompted.Add(float64(tokens))
	reply(w, map[string]any{"id": "rerank-simulated", "model": in.Model, "usage": map[string]any{"total_tokens": tokens}, "results": results})
}
