package route

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"
)

const full Code = "full"

var table = Table{
	Internal: {Status: 500, Text: "a mistake"}, NoSuchPath: {Status: 404, Text: "nothing"}, MethodNotAllowed: {Status: 405, Text: "no such method"},
	NotReady: {Status: 503, Text: "not yet", RetryAfter: time.Second}, BadRequest: {Status: 400, Text: "what?"},
	TooManyConnections: {Status: 503, Text: "too many", RetryAfter: time.Second}, HeadersTooLarge: {Status: 431, Text: "too large"},
	full: {Status: 503, Text: "no room", RetryAfter: 1500 * time.Millisecond},
}

type fixture struct {
	*Routes
	registry *prometheus.Registry
	log      bytes.Buffer
	ready    bool
	failed   []string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{registry: prometheus.NewRegistry(), ready: true}
	f.Routes = New(Config{
		Table: table, Ready: func() bool { return f.ready }, Logger: slog.New(slog.NewTextHandler(&f.log, nil)), Registerer: f.registry,
		Failed: func(err error) { f.failed = append(f.failed, err.Error()) },
	})
	return f
}

func (f *fixture) ask(method, path string) *fasthttp.Response {
	var ctx fasthttp.RequestCtx
	ctx.Request.Header.SetMethod(method)
	ctx.Request.SetRequestURI(path)
	f.Handle(&ctx)
	return &ctx.Response
}

func (f *fixture) check(t *testing.T, request string, status int, body, retry string) *fasthttp.Response {
	t.Helper()
	method, path, _ := strings.Cut(request, " ")
	got := f.ask(method, path)
	if got.StatusCode() != status || !strings.Contains(string(got.Body()), body) || string(got.Header.Peek("Retry-After")) != retry {
		t.Errorf("%s: got %d, Retry-After %q and %s, want %d, %q and %s",
			request, got.StatusCode(), got.Header.Peek("Retry-After"), got.Body(), status, retry, body)
	}
	return got
}

// count is how many requests were answered with the status.
func (f *fixture) count(t *testing.T, status string) float64 {
	t.Helper()
	families, err := f.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "http_requests_total" && m.GetLabel()[0].GetValue() == status {
				return m.GetCounter().GetValue()
			}
		}
	}
	return -1
}

func TestErrorsBecomeAnswers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for path, err := range map[string]error{
		"/full":    fmt.Errorf("put: %w", &Error{Code: full, Err: errors.New("secret")}),
		"/later":   &Error{Code: full, RetryAfter: 3 * time.Second},
		"/exact":   &Error{Code: full, Text: `it is "full"`},
		"/other":   errors.New("secret"),
		"/unknown": &Error{Code: "nobody_knows", Text: "secret"},
	} {
		f.Add("GET", path, func(*fasthttp.RequestCtx) error { return err })
	}
	f.check(t, "GET /full", 503, `{"error":{"code":"full","message":"no room"}}`, "2")
	f.check(t, "GET /later", 503, `"no room"`, "3")
	f.check(t, "GET /exact", 503, `{"error":{"code":"full","message":"it is \"full\""}}`, "2")
	f.check(t, "GET /other", 500, `{"error":{"code":"internal","message":"a mistake"}}`, "")
	f.check(t, "GET /unknown", 500, `"internal"`, "")
	if got := f.count(t, "503"); got != 3 {
		t.Errorf("got %v counted with 503, want 3", got)
	}
	if want := []string{"put: full: secret", "secret"}; !slices.Equal(f.failed, want) {
		t.Errorf("got %q as failures, want %q", f.failed, want)
	}
}

func TestPathsAndMethods(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	say := func(text string) Handler {
		return func(ctx *fasthttp.RequestCtx) error {
			JSON(ctx, 299, []byte(text))
			return nil
		}
	}
	f.Add("GET", "/a", say("get"))
	f.Add("POST", "/a", say("post"))
	f.Add("GET", "/a/b/", say("below b"))
	f.Add("GET", "/a/", say("below a"))
	f.Add("PUT", "/a/", say("put below a"))
	f.check(t, "GET /a", 299, "get", "")
	f.check(t, "POST /a", 299, "post", "")
	f.check(t, "GET /a/b/c", 299, "below b", "")
	f.check(t, "GET /a/c", 299, "below a", "")
	f.check(t, "PUT /a/c", 299, "put below a", "")
	f.check(t, "GET /b", 404, `"no_such_path"`, "")
	if got := f.check(t, "DELETE /a", 405, `"method_not_allowed"`, "").Header.Peek("Allow"); string(got) != "GET, POST" {
		t.Errorf("Allow: got %q, want the methods of the path", got)
	}
	if got := f.count(t, "other"); got != 5 {
		t.Errorf("got %v counted as other, want 5", got)
	}
}

func TestProbesAreAnsweredAndNotCounted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.check(t, "GET /healthz", 200, `{"status":"ok"}`, "")
	f.check(t, "HEAD /readyz", 200, "", "")
	f.check(t, "POST /readyz", 405, "", "")
	f.ready = false
	f.check(t, "GET /healthz", 200, "", "")
	f.check(t, "GET /readyz", 503, `"not_ready"`, "1")
	for _, status := range []string{"200", "405", "503"} {
		if got := f.count(t, status); got != 0 {
			t.Errorf("got %v counted with %s, want none", got, status)
		}
	}
}

func TestAPanicIsAnsweredCountedAndLoggedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.Add("GET", "/bad", func(ctx *fasthttp.RequestCtx) error {
			JSON(ctx, 200, []byte("half"))
			panic("bad")
		})
		for range 3 {
			f.check(t, "GET /bad", 500, `{"error":{"code":"internal","message":"a mistake"}}`, "")
		}
		if got := f.log.String(); strings.Count(got, "a handler panicked") != 1 || !strings.Contains(got, "route_test.go") {
			t.Errorf("got the log\n%s\nwant the panic once, with its stack", got)
		}
		time.Sleep(LogEvery)
		f.ask("GET", "/bad")
		if !strings.Contains(f.log.String(), "dropped=2") {
			t.Errorf("got the log\n%s\nwant a second line that counts what was left out", &f.log)
		}
		if f.requests.inFlight.Load() != 0 || f.count(t, "500") != 4 {
			t.Errorf("got %d in flight and %v counted, want none and 4", f.requests.inFlight.Load(), f.count(t, "500"))
		}
	})
}

func TestUnreadableRequests(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for status, want := range map[int]Code{400: BadRequest, 408: BadRequest, 413: BadRequest, 431: HeadersTooLarge, 503: TooManyConnections} {
		var ctx fasthttp.RequestCtx
		f.BadRequest(&ctx, status)
		if got := ctx.Response.StatusCode(); got != status || !strings.Contains(string(ctx.Response.Body()), string(want)) {
			t.Errorf("status %d: got %d and %s, want %s", status, got, ctx.Response.Body(), want)
		}
	}
}

func TestNotModified(t *testing.T) {
	t.Parallel()
	const tag = `"00000000000000ff"`
	for header, want := range map[string]bool{
		"": false, `"other"`: false, "00000000000000ff": false, tag: true, "W/" + tag: true, `"a", ` + tag: true, "*": true,
	} {
		var ctx fasthttp.RequestCtx
		ctx.Request.Header.Set("If-None-Match", header)
		got := NotModified(&ctx, 255)
		if got != want || (ctx.Response.StatusCode() == 304) != want || !strings.Contains(ctx.Response.Header.String(), "\r\nETag: "+tag+"\r\n") {
			t.Errorf("%q: got %t, status %d and\n%s", header, got, ctx.Response.StatusCode(), &ctx.Response.Header)
		}
	}
}

func TestATableNeedsTheCommonCodes(t *testing.T) {
	t.Parallel()
	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, string(NoSuchPath)) {
			t.Errorf("got %s, want the code that has no answer", said)
		}
	}()
	New(Config{Table: Table{Internal: {Status: 500}}})
}

func TestTag(t *testing.T) {
	t.Parallel()
	for _, tag := range []uint64{0, 1, 0xabcdef, 1 << 63, 0x0123456789abcdef, ^uint64(0)} {
		var got [tagLen]byte
		putTag(&got, tag)
		if want := fmt.Sprintf("\"%016x\"", tag); string(got[:]) != want {
			t.Errorf("tag %x: got %s, want %s", tag, got, want)
		}
	}
}

func TestErrorLogPassesOneInAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := NewErrorLog(slog.New(slog.DiscardHandler), "")
		passed, dropped := 0, 0
		for range 35 { // a failure each second
			if n, ok := l.pass(time.Now()); ok {
				passed++
				dropped += n
			}
			time.Sleep(time.Second) // virtual
		}
		if passed != 4 || dropped != 27 {
			t.Errorf("got %d passed and %d reported as dropped, want 4 and 27", passed, dropped)
		}
	})
}
