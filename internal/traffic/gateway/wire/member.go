package wire

import "strings"

// readMembers are the members of a request that the gateway reads. Each may be
// there once, and spelt like this only: which of two an engine takes, and
// whether letter case matters to it, nobody could say here.
var readMembers = [...]string{
	"model", "stream", "stream_options", "messages", "prompt", "input", "documents", "background",
	"max_tokens", "max_completion_tokens", "max_output_tokens", "n", "best_of", "temperature", "seed",
}

// longestName is how many letters the longest name has that is looked for.
const longestName = len("max_completion_tokens")

// nameIn tells which of the names a member has, -1 for none of them. One that
// differs in letter case only is an error: some engines (Go's JSON, which also
// takes ſ for s and the Kelvin sign for k) read it as that name. Names that
// matter are short, and only those with escapes cost an allocation.
func nameIn(raw []byte, names []string, inside string) (int, error) {
	for at, name := range names {
		if string(raw) == name { // compiled without a copy
			return at, nil
		}
	}
	if len(raw) > len(`\u0000`)*longestName {
		return -1, nil
	}
	if plainPrefix(raw) < len(raw) {
		plain := unquote(raw)
		for at, name := range names {
			if plain == name {
				return at, nil
			}
		}
		raw = []byte(plain)
	}
	for _, name := range names {
		if strings.EqualFold(string(raw), name) {
			return -1, badMember(inside+name, spelling(name, "invalid_member"), "the member %q must be written %q", inside+string(raw), inside+name)
		}
	}
	return -1, nil
}

// spelling is the code of the error for a member that is not there just once
// and as it should be written.
func spelling(name, code string) string {
	if name == "model" {
		return "ambiguous_model"
	}
	return code
}
