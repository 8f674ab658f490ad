package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestShown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string][2]string{
		"words":            {"a\tb ✓ 你好\n", "a\tb ✓ 你好\n"},
		"colours":          {"\x1b[1;32mINFO\x1b[0m ok\n", "INFO ok\n"},
		"a title":          {"\x1b]0;pwned\x07x\x1b]52;c;cGF5\x1b\\y\n", "xy\n"},
		"8-bit controls":   {"a\u009b2Jb\u009d0;pwned\u009cc\u0085d", "abcd"},
		"bytes, no text":   {"a\x9b2Jb\xff", "a\ufffd2Jb\ufffd"},
		"one without end":  {"\x1b]0;never ends\nnext\n", "\nnext\n"},
		"other escapes":    {"\x1bcreset\x1b(0\x1bPq#0\x1b\\z", "reset0z"},
		"line ends":        {"a\r\nb\r\n", "a\nb\n"},
		"drawn over":       {"10%\r20%\r\n", "10%\n20%\n"},
		"rings and erases": {"a\ab\x08c\x7fd\x00e\v\f", "abcde"},
		"turned around":    {"a\u202eb\u2066c\u200fd\u061ce", "abcde"},
	} {
		for _, step := range []int{1, 2, 3, 1000} {
			var out bytes.Buffer
			s := &shown{w: &out}
			for text := c[0]; text != ""; {
				n := min(step, len(text))
				if _, err := s.Write([]byte(text[:n])); err != nil {
					t.Fatal(err)
				}
				text = text[n:]
			}
			// Bytes that begin a character are held back until the next.
			if got := out.String(); got != c[1] && got+"\ufffd" != c[1] {
				t.Errorf("%s, by %d: %q, want %q", name, step, got, c[1])
			}
		}
	}
	if got := plain(" a\x1b[2J\u009bb\u202ec\n\td "); strings.ContainsFunc(got, hidden) || !strings.HasPrefix(got, "a [2J") {
		t.Errorf("plain is %q", got)
	}
}

// terminal is a new one, and all that was written to it.
func terminal(t *testing.T) (tty *os.File, seen func() string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminal is to be had here: %v", err)
	}
	fd := int(master.Fd())
	number, err := unix.IoctlGetUint32(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Skipf("no terminal is to be had here: %v", err)
	}
	all := make(chan string, 1)
	go func() {
		var text bytes.Buffer
		_, _ = text.ReadFrom(master) // ends with an error, once nobody has the other end
		all <- text.String()
	}()
	t.Cleanup(func() { _, _ = tty.Close(), master.Close() })
	return tty, func() string {
		_ = tty.Close()
		select {
		case text := <-all:
			return text
		case <-time.After(30 * time.Second):
			t.Fatal("the terminal has no end")
			return ""
		}
	}
}

// What a model or an engine says does not control the terminal that it is
// shown on; into a pipe it goes as it is.
func TestOthersDoNotControlTheTerminal(t *testing.T) {
	t.Parallel()
	const evil = "\x1b]0;pwned\x07\x1b[2Jwords\u009b31m \u202ebackwards"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/logs"):
			_, _ = fmt.Fprint(w, evil+"\r\n")
		case r.Method == http.MethodPost:
			_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":%s}}]}\n\ndata: {\"error\":{\"message\":%s}}\n\n", quoted(evil), quoted("\x1b[5mbroken"))
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"items":[{"owner":"o","name":%s,"versions":[]}]}`, quoted("m\u009b31m\u202e"))
		}
	}))
	t.Cleanup(server.Close)
	for _, args := range [][]string{{"logs", "x"}, {"chat", "m", "q"}, {"models"}, {"models", "-o", "json"}, {"models", "-o", "yaml"}, {"models", "-o", "name"}} {
		tty, seen := terminal(t)
		run(t.Context(), append(args, withKey(t, server.URL)...), streams{in: strings.NewReader(""), out: tty, err: tty})
		text := strings.ReplaceAll(seen(), "\r\n", "\n") // which the terminal itself made
		if strings.ContainsFunc(text, func(r rune) bool { return hidden(r) && r != '\n' && r != '\t' }) || strings.Contains(text, "pwned") {
			t.Errorf("%q shows %q", args, text)
		}
		if (args[0] != "models") != strings.Contains(text, "words") {
			t.Errorf("%q shows %q", args, text)
		}
		var out, err bytes.Buffer
		run(t.Context(), append(args, withKey(t, server.URL)...), streams{in: strings.NewReader(""), out: &out, err: &err})
		if args[0] != "models" && !strings.Contains(out.String(), evil) {
			t.Errorf("%q writes %q into a pipe", args, out.String())
		}
	}
}

func quoted(s string) string {
	return `"` + strings.NewReplacer("\x1b", `\u001b`, "\a", `\u0007`).Replace(s) + `"`
}
