package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func (c *cli) chatCommand() *cobra.Command {
	var maxTokens int
	cmd := &cobra.Command{
		Use: "chat MODEL [PROMPT]", Short: "Stream one answer from a model",
		Long: "Streams one answer; without PROMPT it is read from standard input.\nThe time to the first chunk and the request id go to standard error.\n" +
			"Where a gateway of its own serves /v1, as on a cluster, MODELDOCK_GATEWAY is its URL.",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			conn, err := c.connect(false)
			if err != nil {
				return err
			}
			if len(args) == 2 {
				return c.chat(cmd.Context(), conn, args[0], args[1], maxTokens)
			}
			prompt, err := io.ReadAll(io.LimitReader(c.in, 1<<20))
			if err != nil {
				return failed(fmt.Errorf("read the prompt: %w", err))
			}
			return c.chat(cmd.Context(), conn, args[0], strings.TrimSpace(string(prompt)), maxTokens)
		},
	}
	cmd.Flags().IntVar(&maxTokens, "max-tokens", 0, "stop after so many tokens")
	return cmd
}

type chatChunk struct {
	Choices []struct {
		Delta struct {
			Content string `json:"content"`
		} `json:"delta"`
	} `json:"choices"`
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

func (c *cli) chat(ctx context.Context, conn *connection, model, prompt string, maxTokens int) error {
	body := map[string]any{"model": model, "stream": true, "messages": []map[string]string{{"role": "user", "content": prompt}}}
	if maxTokens > 0 {
		body["max_tokens"] = maxTokens
	}
	data, err := json.Marshal(body)
	if err != nil {
		return failed(err)
	}
	if gateway := os.Getenv("MODELDOCK_GATEWAY"); gateway != "" && c.opts.url == "" {
		conn.url = strings.TrimSuffix(gateway, "/")
	}
	start := time.Now()
	resp, err := conn.stream(ctx, http.MethodPost, "/v1/chat/completions", data)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	id := resp.Header.Get("X-Request-Id")
	firstChunk, err := c.relayChat(resp.Body, start)
	_, _ = fmt.Fprintln(c.out)
	if err != nil {
		return &exitError{exitFailed, fmt.Errorf("%w (request %s; see `modeldock trace %s`)", err, id, id)}
	}
	_, _ = fmt.Fprintf(c.err, "first chunk after %d ms, done after %d ms, request %s\n", firstChunk.Milliseconds(), time.Since(start).Milliseconds(), id)
	return nil
}

// relayChat prints the deltas of an SSE stream; a stream that ends without
// [DONE] is an error.
func (c *cli) relayChat(r io.Reader, start time.Time) (first time.Duration, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 4<<20)
	out := screen(c.out)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !ok {
			continue
		}
		data = bytes.TrimSpace(data)
		if string(data) == "[DONE]" {
			return first, nil
		}
		var chunk chatChunk
		if json.Unmarshal(data, &chunk) != nil {
			continue
		}
		if chunk.Error != nil {
			return first, fmt.Errorf("the stream broke: %s", chunk.Error.Message)
		}
		for _, choice := range chunk.Choices {
			if choice.Delta.Content != "" && first == 0 {
				first = time.Since(start)
			}
			_, _ = io.WriteString(out, choice.Delta.Content)
		}
	}
	return first, fmt.Errorf("the stream ended without [DONE]: %w", firstErr(lines.Err(), io.ErrUnexpectedEOF))
}
