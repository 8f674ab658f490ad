package gateway

import (
	"net/http"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/gateway/wire"
)

// infer is the way of one request for a model, from the key to the last byte.
func (g *Gateway) infer(x *exchange, op operation) error {
	// 1. Who calls, by the credential alone.
	var key *traffic.Key
	err := g.decide(x, func(view *index) (err error) {
		key, err = g.authenticate(view, x.r)
		return err
	})
	if err != nil {
		return err
	}
	x.caller(key)
	x.beginSpan(op)

	// 2. What is asked. The body is read once and scanned, never re-encoded.
	body, err := g.readBody(x)
	if err != nil {
		return err
	}
	defer body.release()
	asked, err := op.scan(x.r.Header, body.bytes)
	x.rec.Model = typedName(asked.Model) // until it is known which one that is
	x.nameSpan(op, &asked)
	if err == nil {
		err = op.check(&asked)
	}
	if err != nil {
		return badRequest(err)
	}
	x.rec.Stream = asked.Stream

	// 3. Which model the caller means and may use, and which of its versions.
	var versions []*traffic.Model
	err = g.decide(x, func(view *index) (err error) {
		versions, err = view.resolve(key, parseName(asked.Model))
		return err
	})
	if err != nil {
		return err
	}
	model := g.chooseVersion(versions, x.r.Header.Get("X-Session-Id"))
	x.model(model)

	// 4. What the caller's limits leave; given back on every exit. An answer
	//    that is known needs no replica.
	if err := g.admit(x, key, op, &asked, len(body.bytes)); err != nil {
		return err
	}
	defer x.settle()
	if answered, err := g.fromCache(x, key, model, op, &asked, body.bytes); answered || err != nil {
		return err
	}

	// 5. A replica's answer, at once or after waiting for one. A replica that
	//    does not take the request is stepped over. Into the body go only the
	//    engine's own model name and, if accounting needs it, the wish for the
	//    usage.
	if err = g.prepare(x, model, &asked, body); err != nil {
		return err
	}
	answer, err := g.reach(x, op, model, &asked, body)
	body.release() // a long stream must not keep a long prompt
	if err != nil {
		return err
	}
	defer answer.close()

	// 6. Relay what comes, as it comes.
	stream := op.streams && asked.Stream
	return g.relay(x, answer, stream, stream && op.usage && !asked.AsksUsage)
}

// scan finds in the body what the gateway has to know.
func (op operation) scan(h http.Header, body []byte) (wire.Request, error) {
	if op.form {
		return wire.ScanForm(h["Content-Type"], body)
	}
	return wire.ScanRequest(body)
}

// check tells what the operation needs and the body does not have.
func (op operation) check(asked *wire.Request) error {
	switch {
	case !asked.HasModel:
		return &wire.RequestError{Param: "model", Code: "missing_model", Err: errNoModel}
	case op.messages && asked.Messages != wire.Filled:
		return &wire.RequestError{Param: "messages", Code: "empty_messages", Err: errNoMessages}
	case asked.Background:
		return &wire.RequestError{Param: "background", Code: "unsupported_value", Err: errBackground}
	}
	return nil
}
