package wire

// Patch is one replacement in a body.
type Patch struct {
	Start, End int
	With       []byte
}

const askForUsage = `"include_usage":true`

// Patches returns what has to change in the scanned body so that it asks for
// the engine's own model name and, where wantUsage says so and the caller did
// not, for the usage at a stream's end. They are in ascending order and do
// not overlap; every other byte of the body stays as it is.
func (r *Request) Patches(upstream string, wantUsage bool) []Patch {
	if r.form {
		return []Patch{{Start: r.model.start, End: r.model.end, With: []byte(upstream)}}
	}
	name := AppendString(make([]byte, 0, len(upstream)+64), upstream)
	model := Patch{Start: r.model.start, End: r.model.end, With: name}
	if !wantUsage || !r.Stream || r.AsksUsage {
		return []Patch{model}
	}
	var ask Patch
	switch {
	case r.options.end == 0:
		model.With = append(name, `,"stream_options":{`+askForUsage+`}`...)
		return []Patch{model}
	case !r.optionsMap: // null
		ask = Patch{Start: r.options.start, End: r.options.end, With: []byte(`{` + askForUsage + `}`)}
	case r.usage.end != 0: // false or null
		ask = Patch{Start: r.usage.start, End: r.usage.end, With: []byte("true")}
	case r.optionsGap:
		ask = Patch{Start: r.options.start + 1, End: r.options.start + 1, With: []byte(askForUsage + ",")}
	default: // {}
		ask = Patch{Start: r.options.start + 1, End: r.options.start + 1, With: []byte(askForUsage)}
	}
	if ask.Start < model.Start {
		return []Patch{ask, model}
	}
	return []Patch{model, ask}
}

// Pieces applies patches to body without copying it: the result is the
// concatenation of the returned slices, and its length.
func Pieces(body []byte, patches []Patch) ([][]byte, int64) {
	pieces := make([][]byte, 0, 2*len(patches)+1)
	var length int64
	add := func(p []byte) {
		if len(p) > 0 {
			pieces = append(pieces, p)
			length += int64(len(p))
		}
	}
	at := 0
	for _, p := range patches {
		add(body[at:p.Start])
		add(p.With)
		at = p.End
	}
	add(body[at:])
	return pieces, length
}
