package api

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/budget"
	"modeldock.io/internal/budget/sqlledger"
)

func TestKeysThatDoNotOpen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	short := b.key(budget.RoleTenant, "team-a", time.Minute)
	revoked := b.key(budget.RoleTenant, "team-a", 0)
	id, _, _ := budget.ParseKey(revoked)
	b.ask(b.admin, "DELETE", "/keys/"+id, "").is(204)
	b.ask(b.admin, "DELETE", "/keys/"+id, "").is(204)
	b.ask(short, "GET", "/requests", "").is(200)
	b.skew.Store(int64(2 * time.Minute))
	for name, header := range map[string]string{
		"nothing": "", "another scheme": "Basic " + b.a, "no key at all": "Bearer x", "unknown id": "Bearer mdk_nobody_" + strings.Repeat("a", 52),
		"wrong secret": "Bearer " + b.a[:len(b.a)-1] + "_", "another's secret": "Bearer mdk_" + idOf(b.a) + "_" + secretOf(b.b),
		"expired": "Bearer " + short, "revoked": "Bearer " + revoked,
	} {
		r := b.request("GET", "/requests", "")
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		e := b.do(r).fails(401, "unauthorised")
		if strings.Contains(e.Message, secretOf(b.a)) || strings.Contains(e.Message, secretOf(b.b)) {
			t.Errorf("%s: the message shows a secret: %s", name, e.Message)
		}
	}
	r := b.request("GET", "/requests", "")
	r.Header.Set("Authorization", "bearer  "+b.a)
	b.do(r).is(200)
}

// A proxy in front may have judged the other one.
func TestOneCredentialOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, second := range []string{"Bearer " + b.a, "Bearer " + b.b, "Basic x", ""} {
		r := b.request("GET", "/requests", "")
		r.Header["Authorization"] = []string{"Bearer " + b.a, second}
		if e := b.do(r).fails(400, "invalid_request"); !strings.Contains(e.Message, "2 Authorization headers") {
			t.Errorf("%q: %s", second, e.Message)
		}
	}
}

// Answers may hold keys and tokens.
func TestAnswersAreKeptNowhere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cookie, _ := b.signIn(b.a)
	for name, a := range map[string]answer{
		"a new key": b.ask(b.admin, "POST", "/keys", `{"role":"tenant","tenant":"team-a"}`), "a new session": b.ask("", "POST", "/session", `{"key":"`+b.a+`"}`),
		"the session": b.bySession(cookie, "", "GET", "/session", ""), "an error": b.ask("", "GET", "/requests", ""), "no path": b.ask("", "GET", "/nowhere", ""),
	} {
		if a.header.Get("Cache-Control") != "no-store" || a.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v", name, a.status, a.header)
		}
	}
}

func idOf(key string) string { return strings.Split(key, "_")[1] }

func secretOf(key string) string { return strings.Split(key, "_")[2] }

func (b *bundle) signIn(key string) (*http.Cookie, openapi.Session) {
	b.Helper()
	a := b.ask("", "POST", "/session", `{"key":"`+key+`"}`)
	s := read[openapi.Session](a, 200)
	cookies := (&http.Response{Header: a.header}).Cookies()
	if len(cookies) != 1 {
		b.Fatalf("%d cookies were set", len(cookies))
	}
	return cookies[0], s
}

func (b *bundle) bySession(c *http.Cookie, csrf, method, path, body string) answer {
	b.Helper()
	r := b.request(method, path, body)
	r.AddCookie(c)
	if csrf != "" {
		r.Header.Set(CSRFHeader, csrf)
	}
	return b.do(r)
}

func TestSession(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cookie, s := b.signIn(b.a)
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Secure || cookie.Path != "/" || cookie.Name != SessionCookie {
		t.Errorf("cookie: %+v", cookie)
	}
	if value(s.Tenant, "") != "team-a" || s.Role != openapi.RoleTenant || len(s.CsrfToken) < 32 {
		t.Errorf("session: %+v", s)
	}
	if again := read[openapi.Session](b.bySession(cookie, "", "GET", "/session", ""), 200); again.CsrfToken != s.CsrfToken {
		t.Error("GET /session answers another token")
	}
	submit := `{"id":"one","cost":1,"priority":1}`
	b.bySession(cookie, "", "POST", "/requests", submit).fails(403, "forbidden")
	b.bySession(cookie, "wrong", "POST", "/requests", submit).fails(403, "forbidden")
	b.bySession(cookie, s.CsrfToken, "POST", "/requests", submit).is(202)
	_, other := b.signIn(b.b)
	b.bySession(cookie, other.CsrfToken, "POST", "/requests", submit).fails(403, "forbidden")
	b.bySession(cookie, "", "DELETE", "/session", "").fails(403, "forbidden")
	b.bySession(cookie, s.CsrfToken, "DELETE", "/session", "").is(204)
	b.bySession(cookie, "", "GET", "/session", "").fails(401, "unauthorised")
	for _, bad := range []string{"zz", strings.Repeat("ab", 32)} {
		b.bySession(&http.Cookie{Name: SessionCookie, Value: bad}, "", "GET", "/requests", "").fails(401, "unauthorised")
	}
	b.ask("", "POST", "/session", `{"key":"`+b.a+`x"}`).fails(401, "unauthorised")
}

func TestSessionEndsWithItsKeyAndInTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	short := b.key(budget.RoleTenant, "team-a", time.Hour)
	brief, s := b.signIn(short)
	if left := time.Time(s.ExpiresAt).Sub(b.now()); left > time.Hour {
		t.Errorf("the session outlives its key: %v left", left)
	}
	revoked, _ := b.signIn(b.a)
	lasting, _ := b.signIn(b.b)
	b.ok(b.ledger.RevokeKey(t.Context(), idOf(b.a)))
	b.bySession(revoked, "", "GET", "/requests", "").fails(401, "unauthorised")
	b.skew.Store(int64(61 * time.Minute))
	b.bySession(brief, "", "GET", "/requests", "").fails(401, "unauthorised")
	b.bySession(lasting, "", "GET", "/requests", "").is(200)
	b.skew.Store(int64(13 * time.Hour))
	b.bySession(lasting, "", "GET", "/requests", "").fails(401, "unauthorised")
}

func TestCookieIsSecureBehindTLS(t *testing.T) {
	t.Parallel()
	b := setup(t)
	web := httptest.NewTLSServer(b.server.Handler())
	t.Cleanup(web.Close)
	resp, err := web.Client().Post(web.URL+"/session", "application/json", strings.NewReader(`{"key":"`+b.a+`"}`))
	b.ok(err)
	defer func() { _ = resp.Body.Close() }()
	if c := resp.Cookies(); len(c) != 1 || !c[0].Secure {
		t.Errorf("cookies over TLS: %v", c)
	}
}

// What another site's page makes a browser do: it neither writes with a session,
// nor signs anybody in with a key of its choice. A caller with a key is no
// browser's page, and curl says no origin.
func TestOtherSitesUseNoSession(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cookie, s := b.signIn(b.a)
	submit := `{"id":"one","cost":1,"priority":1}`
	for name, header := range map[string][2]string{
		"fetch metadata": {"Sec-Fetch-Site", "cross-site"}, "of a sister site": {"Sec-Fetch-Site", "same-site"},
		"an origin": {"Origin", "https://evil.example"}, "no origin at all": {"Origin", "null"},
	} {
		r := b.request("POST", "/requests", submit)
		r.AddCookie(cookie)
		r.Header.Set(CSRFHeader, s.CsrfToken)
		r.Header.Set(header[0], header[1])
		if e := b.do(r).fails(403, "forbidden"); !strings.Contains(e.Message, "another site") {
			t.Errorf("%s: %s", name, e.Message)
		}
		// A form of another site can be posted as text: that needs no leave of ours.
		r = b.request("POST", "/session", `{"key":"`+b.a+`"}`)
		r.Header.Set("Content-Type", "text/plain")
		r.Header.Set(header[0], header[1])
		if a := b.do(r); a.fails(403, "forbidden").Message == "" || a.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: somebody was signed in: %v", name, a.header)
		}
		r = b.request("GET", "/requests", "")
		r.Header.Set("Authorization", "Bearer "+b.a)
		r.Header.Set(header[0], header[1])
		b.do(r).is(200)
	}
	r := b.request("POST", "/requests", submit)
	r.AddCookie(cookie)
	r.Header.Set(CSRFHeader, s.CsrfToken)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	b.do(r).is(202)
}

// A session that nobody began, one that ended, and bits of one that lives open
// nothing.
func TestForgedCookies(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cookie, s := b.signIn(b.admin)
	flipped := []byte(cookie.Value)
	if flipped[0]++; flipped[0] == ':' || flipped[0] == 'g' {
		flipped[0] = '0'
	}
	for name, forged := range map[string]string{
		"one bit away": string(flipped), "cut": cookie.Value[:len(cookie.Value)-2], "longer": cookie.Value + "00", "its token": s.CsrfToken, "empty": "",
		"zeros": strings.Repeat("00", 32), "a key": b.admin, "another's id": idOf(b.admin), "SQL": "' OR '1'='1",
	} {
		c := &http.Cookie{Name: SessionCookie, Value: forged}
		b.bySession(c, s.CsrfToken, "GET", "/keys", "").fails(401, "unauthorised")
		b.bySession(c, s.CsrfToken, "PUT", "/tenants/team-a/quota", `{"cap":100}`).fails(401, "unauthorised")
		if t.Failed() {
			t.Fatal(name)
		}
	}
	b.bySession(cookie, s.CsrfToken, "GET", "/keys", "").is(200)
}

func TestCookieIsSecureBehindAProxy(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.request("POST", "/session", `{"key":"`+b.a+`"}`)
	r.Header.Set("X-Forwarded-Proto", "https")
	if c := (&http.Response{Header: b.do(r).is(200).header}).Cookies(); len(c) != 1 || !c[0].Secure {
		t.Errorf("cookies behind a proxy: %v", c)
	}
}

// keysAway is a ledger that cannot read keys at the moment.
type keysAway struct{ *sqlledger.Ledger }

func (keysAway) Key(context.Context, string) (budget.APIKey, error) {
	return budget.APIKey{}, errors.Join(errors.New("disk gone"), budget.ErrUnavailable)
}

// An outage is told as one: nobody should throw away a good key over it.
func TestOutageIsNoRefusal(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cookie, _ := b.signIn(b.a)
	away := setup(t, func(c *Config) { c.Ledger = keysAway{b.ledger} })
	for _, a := range []answer{away.ask(b.a, "GET", "/requests", ""), away.bySession(cookie, "", "GET", "/requests", ""), away.ask("", "POST", "/session", `{"key":"`+b.a+`"}`)} {
		a.fails(503, "unavailable")
		if a.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", a.what)
		}
	}
}

func TestKeysAreMintedAndListedWithoutSecrets(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, bad := range []string{
		`{}`, `{"role":"king"}`, `{"role":"tenant"}`, `{"role":"admin","tenant":"team-a"}`, `{"role":"tenant","tenant":"-"}`,
		`{"role":"viewer","expiresInSeconds":0}`, `{"role":"viewer","expiresInSeconds":-1}`, `{"role":"viewer","expiresInSeconds":9223372036854775807}`,
	} {
		b.ask(b.admin, "POST", "/keys", bad).fails(400, "invalid_request")
	}
	k := read[openapi.CreatedKey](b.ask(b.admin, "POST", "/keys", `{"role":"tenant","tenant":"team-a","expiresInSeconds":60}`), 201)
	b.ask(k.Key, "GET", "/requests", "").is(200)
	if left := time.Time(*k.ExpiresAt).Sub(b.now()); left > time.Minute || left < 50*time.Second {
		t.Errorf("expires in %v, want a minute", left)
	}
	a := b.ask(b.admin, "GET", "/keys", "").is(200)
	for _, secret := range []string{k.Key, secretOf(k.Key), secretOf(b.admin)} {
		if strings.Contains(string(a.body), secret) {
			t.Error("the list of keys shows a secret")
		}
	}
	b.skew.Store(int64(61 * time.Second))
	b.ask(k.Key, "GET", "/requests", "").fails(401, "unauthorised")
}
