package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
)

// readAnswer reads one answer to its end and checks that it is complete.
func readAnswer(r *bufio.Reader, began func()) error {
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	streams := media == "text/event-stream"
	const tail = 200
	var last []byte
	buffer := make([]byte, 4<<10)
	for {
		n, err := response.Body.Read(buffer)
		if n > 0 {
			last = append(last, buffer[max(0, n-tail):n]...)
			last = last[max(0, len(last)-tail):]
			if began != nil {
				began()
				began = nil
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
	}
	switch {
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("the answer is %s, ending in %q", response.Status, last)
	// Some write a whole answer anew and add members after the engine's last.
	case streams && !bytes.HasSuffix(last, []byte("[DONE]\n\n")), !streams && !bytes.Contains(last, []byte(`"total_tokens":312}`)):
		return fmt.Errorf("the answer ends in %q", last)
	}
	return nil
}
