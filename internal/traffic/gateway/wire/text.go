package wire

import (
	"unicode/utf16"
	"unicode/utf8"
)

// unquote decodes the raw bytes between the quotes of a string whose grammar
// was checked, the way encoding/json does: lone surrogates become U+FFFD.
func unquote(raw []byte) string {
	plain := plainPrefix(raw)
	if plain == len(raw) && utf8.Valid(raw) {
		return string(raw)
	}
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		switch {
		case raw[i] == '\\':
			var r rune
			r, i = unescape(raw, i+1)
			out = utf8.AppendRune(out, r)
		case raw[i] < utf8.RuneSelf:
			out = append(out, raw[i])
			i++
		default:
			r, n := utf8.DecodeRune(raw[i:])
			out = utf8.AppendRune(out, r)
			i += n
		}
	}
	return string(out)
}

// unescape decodes the escape whose letter is at i and returns the index after
// it.
func unescape(raw []byte, i int) (rune, int) {
	switch raw[i] {
	case 'b':
		return '\b', i + 1
	case 'f':
		return '\f', i + 1
	case 'n':
		return '\n', i + 1
	case 'r':
		return '\r', i + 1
	case 't':
		return '\t', i + 1
	case 'u':
		r := hex4(raw[i+1:])
		i += 5
		if !utf16.IsSurrogate(r) {
			return r, i
		}
		if len(raw)-i >= 6 && raw[i] == '\\' && raw[i+1] == 'u' {
			if pair := utf16.DecodeRune(r, hex4(raw[i+2:])); pair != utf8.RuneError {
				return pair, i + 6
			}
		}
		return utf8.RuneError, i
	default: // a quote, a backslash, a slash
		return rune(raw[i]), i + 1
	}
}

func hex4(b []byte) rune {
	return hexValue(b[0])<<12 | hexValue(b[1])<<8 | hexValue(b[2])<<4 | hexValue(b[3])
}

// AppendString appends s as a JSON string.
func AppendString(dst []byte, s string) []byte {
	const hexDigits = "0123456789abcdef"
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&15])
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}
