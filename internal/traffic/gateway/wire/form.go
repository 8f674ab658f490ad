package wire

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"strings"
)

const (
	maxParts      = 64
	maxPartHeader = 4 << 10
	maxField      = 1 << 10 // of a field that the gateway reads
)

var errNoForm = errors.New(`the request must have one header "Content-Type: multipart/form-data; boundary=…"`)

// ScanForm checks that body is a multipart form (RFC 7578) and finds its
// fields. It takes only what all readers take for the same: what is folded,
// encoded, or almost a boundary is refused, so that the model that was checked
// is the one that the engine sees. The errors are *RequestError.
func ScanForm(contentTypes []string, body []byte) (Request, error) {
	boundary, err := boundaryOf(contentTypes)
	if err != nil {
		return Request{}, &RequestError{Code: "unsupported_media_type", Err: err}
	}
	f := &form{body: body, delimiter: []byte("\r\n--" + boundary), req: Request{form: true, formSize: len(body)}}
	if err = f.scan(); err == nil {
		return f.req, nil
	}
	var known *RequestError
	if !errors.As(err, &known) {
		known = &RequestError{Code: "invalid_form", Err: fmt.Errorf("the request body is no multipart form that can be read safely: %w", err)}
	}
	return f.req, known
}

func boundaryOf(contentTypes []string) (string, error) {
	if len(contentTypes) != 1 || strings.Contains(contentTypes[0], "*") {
		return "", errNoForm
	}
	media, params, err := mime.ParseMediaType(contentTypes[0])
	boundary := params["boundary"]
	if err != nil || media != "multipart/form-data" || boundary == "" || len(boundary) > 70 || strings.ContainsAny(boundary, "\r\n\\\"") {
		return "", errNoForm
	}
	return boundary, nil
}

// form walks the parts of a body.
type form struct {
	body      []byte
	delimiter []byte // with the line end before it
	req       Request
}

func (f *form) scan() error {
	if !bytes.HasPrefix(f.body, f.delimiter[2:]) {
		return errors.New("it does not begin with its boundary")
	}
	if torn := f.delimiter[1:]; bytes.Count(f.body, torn) > bytes.Count(f.body, f.delimiter) ||
		bytes.Contains(f.body, append([]byte("\r"), f.delimiter[2:]...)) {
		return errors.New("a boundary stands on a line that does not begin with CR and LF, which some readers take for one")
	}
	at := len(f.delimiter) - 2
	for range maxParts {
		rest := f.body[at:]
		switch {
		case bytes.HasPrefix(rest, []byte("--")):
			if len(bytes.Trim(rest[2:], "\r\n")) > 0 {
				return errors.New("something stands after its last boundary")
			}
			return nil
		case !bytes.HasPrefix(rest, []byte("\r\n")):
			return fmt.Errorf("the boundary before byte %d does not end its line", at)
		}
		next, err := f.part(at + 2)
		if err != nil {
			return err
		}
		at = next
	}
	return fmt.Errorf("it has more than %d parts", maxParts)
}

// part reads the part whose header begins at byte at, and returns where the
// boundary after it ends.
func (f *form) part(at int) (next int, err error) {
	head := bytes.Index(f.body[at:min(at+maxPartHeader, len(f.body))], []byte("\r\n\r\n"))
	if head < 0 {
		return 0, fmt.Errorf("the header of the part at byte %d does not end within %d bytes", at, maxPartHeader)
	}
	name, file, err := partName(string(f.body[at : at+head]))
	if err != nil {
		return 0, fmt.Errorf("the header of the part at byte %d: %w", at, err)
	}
	start := at + head + len("\r\n\r\n")
	// The line end that closes the header may belong to the boundary: an
	// empty part.
	length := bytes.Index(f.body[start-2:], f.delimiter) - 2
	if length < -2 {
		return 0, fmt.Errorf("the part at byte %d has no end", at)
	}
	if length < 0 {
		return 0, fmt.Errorf("the part at byte %d has no line of its own", at)
	}
	if !file {
		err = f.field(name, span{start, start + length})
	} else if strings.EqualFold(name, "model") {
		err = badMember("model", "invalid_type", "\"model\" must be a field of text, not a file")
	}
	return start + length + len(f.delimiter), err
}

// field keeps what the gateway cares for.
func (f *form) field(name string, value span) error {
	r := &f.req
	switch text := string(value.of(f.body)[:min(maxField, value.end-value.start)]); {
	case name == "model" && r.HasModel:
		return badMember("model", "ambiguous_model", "the field \"model\" is there twice; send it once")
	case name == "model" && value.end-value.start > maxField:
		return badMember("model", "invalid_type", "the field \"model\" has %d bytes, more than a name can have", value.end-value.start)
	case name == "model":
		r.HasModel, r.Model, r.model = true, text, value
	case strings.EqualFold(name, "model"):
		return badMember("model", "ambiguous_model", "the field %q must be written \"model\"", name)
	case name == "stream" && r.hasStream:
		return badMember("stream", "duplicate_member", "the field \"stream\" is there twice; send it once")
	case name == "stream":
		r.hasStream = true
		switch strings.ToLower(text) {
		case "true", "1", "on", "yes", "t", "y":
			r.Stream = true
		}
	case strings.EqualFold(name, "stream") && name != "stream":
		return badMember("stream", "invalid_member", "the field %q must be written \"stream\"", name)
	case name == "response_format":
		r.Plain = text == "text" || text == "srt" || text == "vtt"
	}
	return nil
}

// partName reads the name in a part's header and whether it is a file.
func partName(header string) (name string, file bool, err error) {
	found := false
	for line := range strings.SplitSeq(header, "\r\n") {
		key, value, ok := strings.Cut(line, ":")
		if !ok || key == "" || strings.ContainsAny(line, "\r\n\x00") || strings.ContainsAny(key, " \t") {
			return "", false, fmt.Errorf("%.80q is no field of a header", line)
		}
		switch strings.ToLower(key) {
		case "content-disposition":
			if found {
				return "", false, errors.New("Content-Disposition is there twice")
			}
			found = true
			if name, file, err = dispositionName(value); err != nil {
				return "", false, err
			}
		case "content-transfer-encoding":
			switch strings.ToLower(strings.TrimSpace(value)) {
			case "7bit", "8bit", "binary":
			default:
				return "", false, fmt.Errorf("the transfer encoding %.40q is not taken", value)
			}
		}
	}
	if !found {
		return "", false, errors.New("Content-Disposition is missing")
	}
	return name, file, nil
}

func dispositionName(value string) (name string, file bool, err error) {
	kind, params, err := mime.ParseMediaType(value)
	name, named := params["name"]
	if err != nil || kind != "form-data" || !named || strings.Contains(strings.ReplaceAll(value, "filename*", ""), "name*") {
		return "", false, fmt.Errorf("%.80q names no field", value)
	}
	if strings.ContainsAny(name, "\"\\%") {
		return "", false, fmt.Errorf("the name %.40q has characters that readers decode in different ways", name)
	}
	_, file = params["filename"]
	return name, file, nil
}
