// Package strictpath serves all accounts: it refuses URL paths that two readers
// could read differently. A proxy that decides by the path as it was sent and a
// router that decides by what it decodes must see the same segments.
package strictpath

import (
	"fmt"
	"net/url"
	"strings"
)

// Check returns an error that names the first segment of the path which is more
// than one name once it is decoded: one with an encoded slash, backslash or
// control character, or an encoded "." or "..". What is not encoded is what it
// looks like, and not judged.
func Check(u *url.URL) error {
	for segment := range strings.SplitSeq(u.EscapedPath(), "/") {
		if !strings.Contains(segment, "%") {
			continue
		}
		name, err := url.PathUnescape(segment)
		if err != nil {
			return fmt.Errorf("the path's segment %.100q cannot be decoded: %w", segment, err)
		}
		if what := ambiguous(name); what != "" {
			return fmt.Errorf("the path's segment %.100q holds %s, which other programs take for another path; no name has one, so write the path as it is meant", segment, what)
		}
	}
	return nil
}

func ambiguous(name string) string {
	switch {
	case strings.Contains(name, "/"):
		return "an encoded slash"
	case strings.Contains(name, `\`):
		return "an encoded backslash"
	case name == "." || name == "..":
		return "an encoded " + name
	case strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return "an encoded control character"
	}
	return ""
}
