package wire

const (
	bytesPerToken = 4
	// bytesPerSpokenToken is for sound at 64 kbit/s and three tokens a second.
	bytesPerSpokenToken = 2700
)

// TextTokens estimates how many tokens so many bytes of text are.
func TextTokens(size int64) int64 { return (size + bytesPerToken - 1) / bytesPerToken }

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

// PromptTokens estimates what the request will hold in an engine beside its
// answer. It needs no tokenizer and errs as text does.
func (r *Request) PromptTokens() int64 {
	if r.form {
		return r.InputTokens(r.formSize)
	}
	return int64(r.prompt.end-r.prompt.start) / bytesPerToken
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
