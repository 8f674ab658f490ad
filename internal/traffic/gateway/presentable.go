package gateway

import (
	"net/netip"
	"strings"
	"unicode"
)

// presentable makes an engine's text fit for a caller: its first line, bounded
// in length, without markup, addresses and file names. What lies behind the
// gateway is none of the caller's business, and stack traces are many lines.
func presentable(text string) string {
	const most = 300
	text = strings.TrimSpace(strings.ToValidUTF8(text, ""))
	if strings.HasPrefix(text, "<") {
		return ""
	}
	text, _, _ = strings.Cut(text, "\n")
	words := strings.Fields(text)
	for i, w := range words {
		if inward(w) {
			words[i] = "[…]"
		}
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.Join(words, " "))
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return text
}

// inward tells whether a word names an address, a URL, an absolute path or a
// key.
func inward(word string) bool {
	if strings.Contains(word, "://") || strings.Contains(word, keyPrefix) || strings.Contains(strings.ToLower(word), ".svc.") {
		return true
	}
	w := strings.Trim(word, `"'()<>,;.`)
	if strings.HasPrefix(w, "/") && strings.Count(w, "/") > 1 {
		return true
	}
	for _, part := range strings.FieldsFunc(w, func(r rune) bool { return strings.ContainsRune(`"'(){}=,;/`, r) }) {
		host := strings.Trim(part, "[]")
		if _, err := netip.ParseAddr(host); err == nil && strings.ContainsAny(host, ".:") {
			return true
		}
		if _, err := netip.ParseAddrPort(part); err == nil {
			return true
		}
	}
	return false
}
