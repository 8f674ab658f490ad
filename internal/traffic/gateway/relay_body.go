package gateway

import (
	"errors"
	"io"
	"net/http"
	"strconv"

	"modeldock.io/internal/traffic/gateway/wire"
)

// errHalf ends an answer whose connection closed before its JSON was complete.
var errHalf = errors.New("the connection was closed in the middle of the JSON, and nothing else tells where the answer ends")

// keptTail is how much of a long answer's end is searched for the usage.
const keptTail = 8 << 10

// relayBody passes an answer that is no stream. The beginning is read before
// the status is sent, so that an engine that dies in a short answer is still
// an error with a status of its own.
func (g *Gateway) relayBody(x *exchange, a *answer, as manner) error {
	buffer := g.buffers.get()
	defer g.buffers.pool.Put(buffer)
	n, whole, err := readStart(a.source, buffer[:])
	x.rec.LastByteAt = x.now()
	if err != nil {
		return x.sourceFailed(err)
	}
	said, err := x.judge(a, buffer[:n], whole, as)
	if err != nil {
		return err
	}
	header := x.w.Header()
	returnHeader(header, a, x.rec.Version)
	if a.media() == "" && !a.sealed() { // it is JSON, or judge would not have let it pass
		header["Content-Type"] = []string{"application/json"}
	}
	switch {
	case whole:
		header["Content-Length"] = []string{strconv.Itoa(n)}
	case a.ContentLength >= 0:
		header["Content-Length"] = []string{strconv.FormatInt(a.ContentLength, 10)}
	}
	x.answered.body(int64(n), said)
	x.keep(buffer[:n])
	if whole {
		x.usage(said.Usage)
		x.answered.whole = true
		x.settle()
		x.keepBody(a, as.stream)
	}
	x.start(a.StatusCode)
	if err := x.send(buffer[:n]); err != nil {
		return err
	}
	rc := http.NewResponseController(x.w)
	if err := x.flush(rc); err != nil {
		return err
	}
	x.rec.LastByteAt = x.now()
	x.contentDelivered(x.rec.LastByteAt, false)
	if !whole {
		if err := x.relayRest(a, rc, buffer[:], n); err != nil {
			return err
		}
		x.keepBody(a, as.stream)
	}
	x.completed(x.rec.LastByteAt)
	return nil
}

// readStart fills buf or reads to the end, whichever comes first.
func readStart(src io.Reader, buf []byte) (n int, whole bool, err error) {
	for n < len(buf) {
		c, err := src.Read(buf[n:])
		n += c
		if errors.Is(err, io.EOF) {
			return n, true, nil
		}
		if err != nil {
			return n, false, err
		}
	}
	return n, false, nil
}

// relayRest passes what did not fit into the first buffer, which still holds
// the n bytes before it. Where the end of the connection is all that tells the
// answer's end, the JSON has to be complete by then.
func (x *exchange) relayRest(a *answer, rc *http.ResponseController, buf []byte, n int) error {
	var whole *wire.Whole
	if a.Unframed() && !a.sealed() && a.mayBeJSON() {
		whole = new(wire.Whole)
		whole.Add(buf[:n])
	}
	tail := append(make([]byte, 0, 2*keptTail), buf[max(0, n-keptTail):n]...)
	for {
		n, err := a.source.Read(buf)
		if n > 0 {
			if err := x.send(buf[:n]); err != nil {
				return err
			}
			x.rec.LastByteAt = x.now()
			x.answered.opaque(int64(n))
			x.keep(buf[:n])
			tail = keepTail(tail, buf[:n])
			if whole != nil {
				whole.Add(buf[:n])
			}
		}
		switch {
		case errors.Is(err, io.EOF) && whole != nil && !whole.Ended():
			return x.sourceFailed(errHalf)
		case errors.Is(err, io.EOF):
			x.usage(wire.ReadTailUsage(tail))
			x.answered.whole = true
			x.settle()
			if err := x.flush(rc); err != nil {
				return err
			}
			x.rec.LastByteAt = x.now()
			return nil
		case err != nil:
			return x.sourceFailed(err)
		}
	}
}

// keepTail appends p and keeps the last bytes.
func keepTail(tail, p []byte) []byte {
	if len(p) >= keptTail {
		return append(tail[:0], p[len(p)-keptTail:]...)
	}
	if drop := len(tail) + len(p) - keptTail; drop > 0 {
		tail = tail[:copy(tail, tail[drop:])]
	}
	return append(tail, p...)
}

func (x *exchange) usage(u wire.Usage) {
	if u.Reported {
		x.rec.PromptTokens, x.rec.CompletionTokens = u.Prompt, u.Completion
	}
}
