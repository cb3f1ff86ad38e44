// Package backofficetest has who signs in at an office in tests: a Browser without script, and a
// Person before a real one. It is for tests only.
package backofficetest

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"loadstone/block/account"
	"loadstone/block/backoffice"
)

// Password is everybody's.
const Password = "correct horse battery"

// Key signs sessions.
const Key = "a-key-that-nobody-guesses"

// Accounts are NAME:ROLE with the one password, hashed as cheaply as can be.
func Accounts(tb testing.TB, roles []account.Role, names ...string) *account.Accounts {
	tb.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(Password), bcrypt.MinCost)
	if err != nil {
		tb.Fatal(err)
	}
	var text strings.Builder
	for _, name := range names {
		name, role, _ := strings.Cut(name, ":")
		fmt.Fprintln(&text, name, role, string(hash))
	}
	accounts, err := account.Parse([]byte(text.String()), roles)
	if err != nil {
		tb.Fatal(err)
	}
	return accounts
}

// Browser is one that knows no script. It keeps one cookie.
type Browser struct {
	// URL is the server's.
	URL string
	// Name is that of the cookie, Cookie what it holds.
	Name, Cookie string
	// Headers are sent with every request, NAME: VALUE.
	Headers []string

	tb testing.TB
}

// NewBrowser returns a browser of the system with the name, at the address of its server.
func NewBrowser(tb testing.TB, url, system string) *Browser {
	tb.Helper()
	return &Browser{tb: tb, URL: url, Name: system + "_admin", Headers: []string{"Sec-Fetch-Site: same-origin"}}
}

// As signs an account in.
func (b *Browser) As(name string) *Browser {
	b.tb.Helper()
	b.Post("/sign-in", http.StatusSeeOther, "", "name", name, "password", Password)
	return b
}

// Answer is what came back.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Ask sends a request to a path below backoffice.Path.
func (b *Browser) Ask(method, path, body string) Answer {
	b.tb.Helper()
	req, err := http.NewRequestWithContext(b.tb.Context(), method, b.URL+backoffice.Path+path, strings.NewReader(body))
	if err != nil {
		b.tb.Fatal(err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if b.Cookie != "" {
		req.Header.Set("Cookie", b.Name+"="+b.Cookie)
	}
	for _, h := range b.Headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		b.tb.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }() // read to its end
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.tb.Fatal(err)
	}
	for _, c := range res.Cookies() {
		if c.Name == b.Name {
			b.Cookie = c.Value
		}
	}
	return Answer{res.StatusCode, res.Header, string(text)}
}

func (b *Browser) want(got Answer, what string, status int, text string) Answer {
	b.tb.Helper()
	if got.Status != status || !strings.Contains(got.Body, text) {
		b.tb.Errorf("%s: got status %d and %.3000q, want %d and %q", what, got.Status, got.Body, status, text)
	}
	return got
}

// Get asks for a page, and wants a status and a text in it.
func (b *Browser) Get(path string, status int, text string) Answer {
	b.tb.Helper()
	return b.want(b.Ask(http.MethodGet, path, ""), "GET "+path, status, text)
}

// Post sends a form of names and values in turn, and wants a status and a text in the answer.
func (b *Browser) Post(path string, status int, text string, fields ...string) Answer {
	b.tb.Helper()
	var form strings.Builder
	for i, text := range fields {
		form.WriteString(url.QueryEscape(text) + []string{"=", "&"}[i%2])
	}
	return b.want(b.Ask(http.MethodPost, path, form.String()), "POST "+path, status, text)
}

// Hidden are the hidden fields of a page, names and values in turn.
func Hidden(page string) (fields []string) {
	for part := range strings.SplitSeq(page, `<input type="hidden" name="`) {
		name, rest, ok := strings.Cut(part, `" value="`)
		value, _, closed := strings.Cut(rest, `"`)
		if ok && closed && !strings.ContainsAny(name, "<> ") {
			fields = append(fields, name, html.UnescapeString(value))
		}
	}
	return fields
}
