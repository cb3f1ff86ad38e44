package web

import (
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"loadstone/system/results"
)

// BenchmarkResult is a posted form answered by a student's page: reading the
// form and the page's JSON, and writing the page. The look-up is not in it, nor
// the server. The aim is 20 µs.
func BenchmarkResult(b *testing.B) {
	h := hanna()
	page := results.NewPage(&h)
	benchHandle(b, newSite(b, func(c *Config) { c.Lookup = always(results.Decision{Page: page}) }), "POST", good, "Hanna")
}

// BenchmarkUnknown is what somebody who guesses makes the server do.
func BenchmarkUnknown(b *testing.B) {
	benchHandle(b, newSite(b, nil), "POST", "id=5&code=1", "There is no result")
}

// BenchmarkBusy is what an overloaded server does for everybody: it must be less
// than what it refuses to do.
func BenchmarkBusy(b *testing.B) {
	benchHandle(b, newSite(b, func(c *Config) { c.Lookup = always(results.Decision{Err: results.ErrOverloaded}) }), "POST", good, "tries again")
}

// BenchmarkForm is the first page.
func BenchmarkForm(b *testing.B) { benchHandle(b, newSite(b, nil), "GET", "", "Access code") }

func benchHandle(b *testing.B, s *Site, method, body, want string) {
	b.Helper()
	var req fasthttp.Request
	req.Header.SetMethod(method)
	req.SetRequestURI("/?lang=en")
	req.Header.SetContentType("application/x-www-form-urlencoded")
	req.SetBodyString(body)
	var ctx fasthttp.RequestCtx
	b.ReportAllocs()
	for b.Loop() {
		ctx.Init(&req, nil, nil)
		ctx.Response.Reset()
		s.Handle(&ctx)
	}
	if got := string(ctx.Response.Body()); !strings.Contains(got, want) {
		b.Fatalf("got %.300q, want %q in it", got, want)
	}
}
