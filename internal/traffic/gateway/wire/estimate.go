package wire

const (
	bytesPerToken = 4
	// bytesPerSpokenToken is for sound at 64 kbit/s and three tokens a second.
	bytesPerSpokenToken = 2700
	// unsaidTokens is what an answer is taken for whose length the caller
	// does not bound.
	unsaidTokens = 256
)

// Prompt is the text of what the model is to read: the value of messages,
// prompt or input, as it is written. It begins the same for requests that
// begin the same.
func (r *Request) Prompt(body []byte) []byte { return r.prompt.of(body) }

// InputTokens estimates what the request brings, by its body's size. Of a form nearly all is
// sound, whose words are few for its bytes.
func (r *Request) InputTokens(size int) int64 {
	if r.form {
		return max(1, int64(size)/bytesPerSpokenToken)
	}
	return max(1, int64(size)/bytesPerToken)
}

// Tokens estimates what the request will hold in an engine while it runs:
// prompt and answer. It needs no tokenizer and errs as text does.
func (r *Request) Tokens() int64 {
	if r.form {
		return r.InputTokens(r.formSize) + unsaidTokens
	}
	answer := int64(unsaidTokens)
	if r.MaxTokens > 0 {
		answer = r.MaxTokens
	}
	return int64(r.prompt.end-r.prompt.start)/bytesPerToken + answer
}

// scanPrompt notes where the prompt lies; of two, the longer counts.
func (r *Request) scanPrompt(c *cursor, scan func() error) error {
	c.space()
	start := c.i
	err := scan()
	if c.i-start > r.prompt.end-r.prompt.start {
		r.prompt = span{start, c.i}
	}
	return err
}
