package httpapi_test

import (
	"errors"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"loadstone/block/openapitest"
	"loadstone/system/results/httpapi"
	"loadstone/system/results/httpapi/guard"
)

var theDocument = sync.OnceValues(func() (*openapitest.Document, error) { return openapitest.Read("openapi.json") })

// conforms checks an answer to a raw request. Every answer that a fixture gets
// goes through it.
func conforms(t *testing.T, request string, raw []byte) string {
	t.Helper()
	d, err := theDocument()
	if err != nil {
		t.Fatal(err)
	}
	fields := append(strings.SplitN(strings.SplitN(request, "\r\n", 2)[0], " ", 3), "", "")
	got := parse(t, fields[0], raw)
	name, err := d.Check(fields[0], fields[1], openapitest.Answer{Status: got.status, Header: got.header, Body: got.body})
	if err != nil {
		t.Errorf("request %.80q: %v", request, err)
	}
	return name
}

// Every answer that the document lists is given by the implementation.
func TestDocumentIsExercised(t *testing.T) {
	t.Parallel()
	d, err := theDocument()
	if err != nil {
		t.Fatal(err)
	}
	missing := d.Names()
	visit := func(f fixture, target string, headers ...string) {
		for _, method := range []string{"GET", "HEAD", "POST"} {
			lines := append([]string{method + " " + target + " HTTP/1.1", "Host: x", "Connection: close"}, headers...)
			request := strings.Join(lines, "\r\n") + "\r\n\r\n"
			delete(missing, conforms(t, request, f.send(t, request)))
		}
	}
	const key = "X-Access-Code: " + code
	f := start(t, students, httpapi.Code, always)
	for _, target := range []string{"/student/123456", "/student/5", "/student/x", "/openapi.json", "/healthz", "/readyz", "/nothing"} {
		visit(f, target, key)
	}
	visit(f, "/student/123456", key, "If-None-Match: "+etag)
	visit(start(t, students, httpapi.Open, func() bool { return false }), "/readyz")
	visit(start(t, brokenStore{err: errors.New("broken")}, httpapi.Open, always), "/student/1")
	visit(start(t, brokenStore{panic: "broken"}, httpapi.Open, always), "/student/1")
	visit(startWith(t, httpapi.Config{Store: students, Access: httpapi.Code, Publication: inAnHour}), "/student/123456", key)

	limits := guard.DefaultConfig()
	limits.Rate, limits.Burst = 0.001, 1
	limited := startWith(t, httpapi.Config{Store: students, Access: httpapi.Code, Limits: &limits})
	limited.ask(t, "GET", "/student/1")
	for _, target := range []string{"/student/1", "/openapi.json", "/nothing"} {
		visit(limited, target)
	}
	for _, request := range []string{
		"garbage\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nCookie: " + strings.Repeat("c", 20_000) + "\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n",
	} {
		delete(missing, conforms(t, request, f.send(t, request)))
	}
	const cut = "GET / HTTP/1.1\r\nHost: x\r\nX-"
	hasty := startReading(t, httpapi.Config{Store: students, Access: httpapi.Code}, 200*time.Millisecond)
	delete(missing, conforms(t, cut, hasty.send(t, cut)))
	if len(missing) > 0 {
		t.Errorf("in the document and never seen:\n%s", strings.Join(slices.Sorted(maps.Keys(missing)), "\n"))
	}
}

func TestDocumentIsServed(t *testing.T) {
	t.Parallel()
	f := start(t, students, httpapi.Code, always)
	got := parse(t, "GET", f.ask(t, "GET", "/openapi.json"))
	want, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if got.status != 200 || got.body != string(want) {
		t.Errorf("got status %d and %d bytes, want 200 and the file's %d", got.status, len(got.body), len(want))
	}
}

// The comparison with the document must be able to fail.
func TestDocumentRefuses(t *testing.T) {
	t.Parallel()
	d, err := theDocument()
	if err != nil {
		t.Fatal(err)
	}
	good := func() openapitest.Answer {
		return openapitest.Answer{Status: 200, Body: body, Header: http.Header{
			"Content-Type": {"application/json; charset=utf-8"}, "Cache-Control": {"private, no-cache"}, "Etag": {etag},
		}}
	}
	const target = "/student/123456"
	if _, err := d.Check("GET", target, good()); err != nil {
		t.Fatalf("a good answer: %v", err)
	}
	for name, change := range map[string]func(*openapitest.Answer){
		"a status":         func(a *openapitest.Answer) { a.Status = 418 },
		"a body":           func(a *openapitest.Answer) { a.Body = "{}" },
		"a new property":   func(a *openapitest.Answer) { a.Body = strings.Replace(a.Body, "{", `{"code":"7QX4",`, 1) },
		"a mark":           func(a *openapitest.Answer) { a.Body = strings.Replace(a.Body, `"english":61`, `"english":161`, 1) },
		"no JSON":          func(a *openapitest.Answer) { a.Body = "ok" },
		"a content type":   func(a *openapitest.Answer) { a.Header.Set("Content-Type", "text/plain") },
		"a missing header": func(a *openapitest.Answer) { a.Header.Del("ETag") },
		"a doubled header": func(a *openapitest.Answer) { a.Header.Add("ETag", etag) },
		"a header's value": func(a *openapitest.Answer) { a.Header.Set("Cache-Control", "public") },
		"a new header":     func(a *openapitest.Answer) { a.Header.Set("X-Debug", "1") },
	} {
		bad := good()
		change(&bad)
		if _, err := d.Check("GET", target, bad); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	if _, err := d.Check("GET", "/nothing", good()); err == nil {
		t.Error("a path: got no error")
	}
	if _, err := d.Check("PUT", target, good()); err == nil {
		t.Error("a method: got no error")
	}
}

// The document is what it says that it is.
func TestDocumentIsWhole(t *testing.T) {
	t.Parallel()
	d, err := theDocument()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Whole(); err != nil {
		t.Error(err)
	}
}
