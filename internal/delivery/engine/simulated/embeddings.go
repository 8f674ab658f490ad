package simulated

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http"
	"strings"
)

const (
	defaultDimensions = 64
	maxDimensions     = 8192
)

// embeddings answers with unit vectors that depend on the text alone.
func (e *Engine) embeddings(w http.ResponseWriter, r *http.Request, in request) {
	texts := inputs(in.Input)
	if len(texts) == 0 {
		fail(w, http.StatusBadRequest, "invalid_request_error", "input must be a text or a list of texts")
		return
	}
	n := in.Dimensions
	if n <= 0 {
		n = defaultDimensions
	}
	if n > maxDimensions {
		fail(w, http.StatusBadRequest, "invalid_request_error", "dimensions is larger than 8192")
		return
	}
	if !e.pace(r.Context(), 0) {
		e.metrics.cancelled.Inc()
		return
	}
	tokens, data := 0, make([]any, len(texts))
	for i, text := range texts {
		tokens += max(1, len(strings.Fields(text)))
		var vector any = vectorOf(text, n)
		if in.EncodingFormat == "base64" {
			vector = packed(vectorOf(text, n))
		}
		data[i] = map[string]any{"object": "embedding", "index": i, "embedding": vector}
	}
	e.metrics.prompted.Add(float64(tokens))
	reply(w, map[string]any{
		"object": "list", "model": in.Model, "data": data,
		"usage": map[string]any{"prompt_tokens": tokens, "total_tokens": tokens},
	})
}

func inputs(raw json.RawMessage) []string {
	var list []string
	if json.Unmarshal(raw, &list) == nil {
		return list
	}
	var one string
	if json.Unmarshal(raw, &one) == nil && one != "" {
		return []string{one}
	}
	return nil
}

func vectorOf(text string, n int) []float32 {
	out := make([]float32, n)
	block := sha256.Sum256([]byte(text))
	var length float64
	for i := range out {
		if i > 0 && i%8 == 0 {
			block = sha256.Sum256(block[:])
		}
		v := float64(binary.LittleEndian.Uint32(block[i%8*4:]))/math.MaxUint32*2 - 1
		out[i] = float32(v)
		length += v * v
	}
	for i := range out {
		out[i] /= float32(math.Sqrt(length))
	}
	return out
}

// packed is the little-endian base64 form that the official clients ask for.
func packed(v []float32) string {
	raw := make([]byte, 0, 4*len(v))
	for _, f := range v {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(f))
	}
	return base64.StdEncoding.EncodeToString(raw)
}
