package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
)

// inline is how large a request is written before its answer is awaited: the
// system takes that much although the engine may not read it. A larger one is
// written beside, so that an engine that refuses it in its midst is heard.
const inline = 64 << 10

// Answer is an engine's answer. It is an io.Reader of the body, and End must be
// called.
type Answer struct {
	StatusCode    int
	Header        http.Header
	ContentLength int64 // of the body; -1 if it was not told

	pool    *Pool
	to      engine
	conn    *conn
	body    io.Reader // decoded
	chunks  *chunks   // that, of a chunked answer
	stop    func() bool
	over    atomic.Bool // the connection is closed, or serves another
	final   bool        // the engine closes the connection after it
	whole   bool        // its end was read
	ended   bool
	told    bool       // Sent was called, or will be
	sending chan error // of a large request, which is written beside; else nil
}

// Do sends a request and returns its answer's head. When ctx ends, before that
// or while the body is read, the connection is closed. That no connection could
// be made is a *net.OpError whose Op is "dial". A request of which something
// was sent is never sent again.
func (p *Pool) Do(ctx context.Context, r *Request) (*Answer, error) {
	a := &Answer{pool: p, to: engine{r.Address, r.User}}
	for {
		again, err := a.try(ctx, r)
		if err == nil {
			return a, nil
		}
		if again && ctx.Err() == nil {
			continue // nothing was sent on a connection that had died of age
		}
		if !a.told {
			r.Sent(false)
		}
		return nil, err
	}
}

// try makes one attempt, on a connection that it closes if it fails. again
// tells that the failure was only that of an idle connection, and nothing was
// sent.
func (a *Answer) try(ctx context.Context, r *Request) (again bool, err error) {
	if a.conn = a.pool.take(a.to); a.conn == nil {
		if a.conn, err = a.pool.dial(ctx, a.to); err != nil {
			return false, err
		}
	}
	a.over.Store(false)
	a.stop = context.AfterFunc(ctx, a.Abort)
	var written int64
	if r.Length > inline {
		a.sendBeside(r)
	} else if written, err = a.pool.write(a.conn, r); err == nil {
		a.told = true
		r.Sent(true)
	}
	if err == nil {
		err = a.await()
	} else {
		again = written == 0 && a.conn.reused
		err = fmt.Errorf("send the request to the engine: %w", err)
	}
	if err != nil {
		a.stop()
		a.Abort()
	}
	return again, err
}

func (a *Answer) sendBeside(r *Request) {
	done := make(chan error, 1)
	a.sending, a.told = done, true
	go func(c *conn) {
		_, err := a.pool.write(c, r)
		r.Sent(err == nil)
		done <- err
	}(a.conn)
}

// await reads the answer's head; what engines say beforehand (100 to 199) is
// passed over.
func (a *Answer) await() error {
	c := a.conn
	c.reader, _ = a.pool.readers.Get().(*bufio.Reader)
	if c.reader == nil {
		c.reader = bufio.NewReaderSize(c, bufferSize)
	} else {
		c.reader.Reset(c)
	}
	c.left = maxHead
	for {
		response, err := http.ReadResponse(c.reader, nil) //nolint:bodyclose // closing would wait for the end; End closes the connection
		if err != nil {
			return fmt.Errorf("read the engine's answer: %w", err)
		}
		if response.StatusCode == http.StatusSwitchingProtocols {
			return errors.New("the engine switches to another protocol, which nobody asked for")
		}
		if response.StatusCode >= http.StatusOK {
			c.left = -1
			a.StatusCode, a.Header, a.ContentLength = response.StatusCode, response.Header, response.ContentLength
			a.body, a.final = response.Body, response.Close
			if len(response.TransferEncoding) > 0 { // which net/http knows to be "chunked"
				a.unframe()
			}
			return nil
		}
	}
}

// unframe reads the body without net/http, and without the reader's buffer.
func (a *Answer) unframe() {
	c := a.conn
	a.chunks = &chunks{source: c}
	if n := c.reader.Buffered(); n > 0 {
		ahead, _ := c.reader.Peek(n) // that much is there
		a.chunks.ahead = append([]byte(nil), ahead...)
	}
	a.body = a.chunks
	a.dropReader()
}

// dropReader lets another connection use the buffer.
func (a *Answer) dropReader() {
	if r := a.conn.reader; r != nil {
		a.conn.reader = nil
		r.Reset(nil)
		a.pool.readers.Put(r)
	}
}

// rest tells that more came than belongs to the answer.
func (a *Answer) rest() bool {
	if a.chunks != nil {
		return a.chunks.extra || len(a.chunks.ahead) > 0
	}
	return a.conn.reader.Buffered() > 0
}

var errEnded = errors.New("read from an answer that was ended")

// Read reads the body.
func (a *Answer) Read(p []byte) (int, error) {
	if a.ended {
		return 0, errEnded
	}
	n, err := a.body.Read(p)
	if err == io.EOF {
		a.whole = true
	}
	return n, err //nolint:wrapcheck // io.EOF must stay what it is
}

// Unframed tells that the body ends where the connection does, so that a cut
// looks like its end.
func (a *Answer) Unframed() bool { return a.chunks == nil && a.ContentLength < 0 }

// Abort closes the connection, unless it serves this answer no more. It may be
// called at any time and by anybody.
func (a *Answer) Abort() {
	if a.over.CompareAndSwap(false, true) {
		a.conn.discard()
	}
}

// End keeps the connection for another request if the answer was read to its
// end, and closes it otherwise, which is how the engine learns that nobody
// listens. Nothing may be read afterwards.
func (a *Answer) End() {
	if a.ended {
		return
	}
	a.ended = true
	c := a.conn
	if a.stop() && a.whole && !a.final && !a.rest() && a.sent() && a.over.CompareAndSwap(false, true) {
		a.dropReader()
		a.pool.put(a.to, c)
		return
	}
	a.Abort()
	a.dropReader()
}

// sent tells that all of the request is on its way.
func (a *Answer) sent() bool {
	if a.sending == nil {
		return true
	}
	select {
	case err := <-a.sending:
		return err == nil
	default:
		return false
	}
}
