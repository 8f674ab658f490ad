package strictpath_test

import (
	"net/url"
	"strings"
	"testing"

	"modeldock.io/internal/strictpath"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	for path, says := range map[string]string{
		"/":                    "",
		"/requests/one.two-3":  "",
		"/requests/%6fne":      "", // "one", however it is spelt
		"/requests/a%2eb":      "", // a name with a dot in it
		"/requests/../keys":    "", // is what it looks like
		"/requests/a%252fb":    "", // a name with "%2f" in it; it is not decoded twice
		"/requests/a%2Fb":      "slash",
		"/requests/a%2fb":      "slash",
		"/requests%2fone":      "slash",
		"/requests/%2e%2E/one": "encoded ..",
		"/requests/.%2e/one":   "encoded ..",
		"/requests/%2e":        "encoded .",
		"/requests/..%5ckeys":  "backslash",
		"/requests/one%00":     "control",
		"/requests/one%0d%0aX": "control",
		"/requests/%7f":        "control",
	} {
		u, err := url.ParseRequestURI(path)
		if err != nil {
			t.Fatal(err)
		}
		switch err := strictpath.Check(u); {
		case says == "" && err != nil:
			t.Errorf("%s is refused: %v", path, err)
		case says != "" && (err == nil || !strings.Contains(err.Error(), says)):
			t.Errorf("%s: %v, want %q", path, err, says)
		}
	}
	long := &url.URL{Path: "/" + strings.Repeat("x", 10_000) + "/y", RawPath: "/" + strings.Repeat("x", 10_000) + "%2fy"}
	if err := strictpath.Check(long); err == nil || len(err.Error()) > 500 {
		t.Errorf("a long path is refused with %d bytes", len(err.Error()))
	}
}
