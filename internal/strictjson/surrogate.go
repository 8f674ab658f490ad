package strictjson

import (
	"strconv"
	"unicode/utf16"
)

// loneSurrogate finds an escape that is half of a UTF-16 pair without its
// other half, -1 if there is none: readers make different things of it.
func loneSurrogate(data []byte) int {
	for i := 0; i+1 < len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		r, ok := escaped(data[i:])
		if !ok {
			i++ // another escape; its second character may be a backslash
			continue
		}
		if utf16.IsSurrogate(r) {
			low, ok := escaped(data[min(i+6, len(data)):])
			if !ok || utf16.DecodeRune(r, low) == '\uFFFD' {
				return i
			}
			i += 6
		}
		i += 5
	}
	return -1
}

// escaped reads \uXXXX at the start of b.
func escaped(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return rune(n), err == nil
}
