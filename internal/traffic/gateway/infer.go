package gateway

import (
	"net/http"

	"modeldock.io/internal/traffic"
	"modeldock.io/internal/traffic/gateway/wire"
)

// infer is the way of one request for a model, from the key to the last byte.
// What a stream does not need for its hours is left behind in ask, with the
// room that it takes on the stack.
func (g *Gateway) infer(x *exchange, op operation) error {
	defer x.settle() // what admit took of the caller's limits
	answer, as, err := g.ask(x, op)
	if answer == nil {
		return err // or it was known, and is sent
	}
	defer answer.close()

	// 6. Relay what comes, as it comes.
	return g.relay(x, answer, as)
}

// manner is how an answer is relayed.
type manner struct {
	stream    bool // events were asked for
	dropUsage bool // but not the usage that the gateway needs
	// transcript is for engines that know no streams of them: they answer as
	// if none was asked for, as OpenAI's whisper-1 does.
	transcript bool
	choices    int64 // that were asked for; 0: it is not said
}

// events tells that nothing but events is an answer.
func (m manner) events() bool { return m.stream && !m.transcript }

// ask finds out who asks what, and returns the head of a replica's answer. It
// returns none, and no error, if the answer was kept from an earlier request
// and is sent.
//
//go:noinline
func (g *Gateway) ask(x *exchange, op operation) (*answer, manner, error) {
	// 1. Who calls, by the credential alone.
	var key *traffic.Key
	err := g.decide(x, func(view *index) (err error) {
		key, err = g.authenticate(view, x.r)
		return err
	})
	if err != nil {
		return nil, manner{}, err
	}
	x.caller(key)
	x.beginSpan(op)

	// 2. What is asked. The body is read once and scanned, never re-encoded.
	body, err := g.readBody(x)
	if err != nil {
		return nil, manner{}, err
	}
	defer body.release() // a long stream must not keep a long prompt
	asked, err := op.scan(x.r.Header, body.bytes)
	x.rec.Model = typedName(asked.Model) // until it is known which one that is
	x.nameSpan(op, &asked)
	if err == nil {
		err = op.check(&asked)
	}
	if err != nil {
		return nil, manner{}, badRequest(err)
	}
	x.rec.Stream = asked.Stream

	// 3. Which model the caller means and may use, and which of its versions.
	//    The body may have taken its time: the key is looked at again.
	var versions []*traffic.Model
	err = g.decide(x, func(view *index) (err error) {
		if err = g.stillOpens(view, key); err != nil {
			return err
		}
		versions, err = view.resolve(key, parseName(asked.Model))
		return err
	})
	if err != nil {
		return nil, manner{}, err
	}
	model := g.chooseVersion(versions, x.r.Header.Get("X-Session-Id"))
	x.model(model)

	// 4. What the caller's limits leave. An answer that is known needs no
	//    replica.
	x.estimate = op.estimate(&asked, len(body.bytes))
	if err := g.admit(x, key); err != nil {
		return nil, manner{}, err
	}
	if answered, err := g.fromCache(x, key, model, op, &asked, body.bytes); answered || err != nil {
		return nil, manner{}, err
	}

	// 5. A replica's answer, at once or after waiting for one. A replica that
	//    does not take the request is stepped over. Into the body go only the
	//    engine's own model name and, if accounting needs it, the wish for the
	//    usage.
	if err = g.prepare(x, model, &asked, body); err != nil {
		return nil, manner{}, err
	}
	stream := op.streams && asked.Stream
	answer, err := g.reach(x, key, op, model, &asked, body)
	as := manner{stream: stream, dropUsage: stream && op.usage && !asked.AsksUsage, transcript: op.form}
	if op.usage { // of completions
		as.choices = asked.Choices
	}
	return answer, as, err
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
