package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/system/results"
	"loadstone/system/results/httpapi"
	"loadstone/system/results/httpapi/guard"
)

const (
	knownID = 123456
	code    = "7QX4-M2KD-90AZ"
)

var (
	abeba = results.Student{
		ID: knownID, Name: "Abeba Tesfaye", Sex: results.Female, School: "Bole School", Region: "Addis Ababa",
		BirthDate: results.Date{Year: 2007, Month: 2, Day: 28}, Stream: results.Natural,
		Marks: [results.SubjectsPerStream]int{61, 55, 48, 70, 66, 59, 80}, PassMark: results.DefaultPassMark, Code: "7QX4M2KD90AZ",
	}
	codeless = func() results.Student { s := abeba; s.ID, s.Code = 999, ""; return s }()

	page = results.NewPage(&abeba)
	body = string(page.Body)
	etag = fmt.Sprintf(`"%016x"`, page.Tag)

	students = memStore{knownID: page, 999: results.NewPage(&codeless)} // 999 was imported without a code
)

func TestAnswers(t *testing.T) {
	t.Parallel()
	f := start(t, students, httpapi.Open, always)
	for name, c := range map[string]struct {
		method, target string
		status         int
		code           string // of the error; "" if there is none
	}{
		"page":                   {"GET", "/student/123456", 200, ""},
		"page without its body":  {"HEAD", "/student/123456", 200, ""},
		"query is ignored":       {"GET", "/student/123456?x=1", 200, ""},
		"unknown id":             {"GET", "/student/5", 404, "not_found"},
		"unknown id, no body":    {"HEAD", "/student/5", 404, "not_found"},
		"largest id":             {"GET", "/student/999999999999999999", 404, "not_found"},
		"too large an id":        {"GET", "/student/9999999999999999999", 400, "malformed_id"},
		"no id":                  {"GET", "/student/", 400, "malformed_id"},
		"letters":                {"GET", "/student/abc", 400, "malformed_id"},
		"negative":               {"GET", "/student/-5", 400, "malformed_id"},
		"slash behind the id":    {"GET", "/student/123456/", 400, "malformed_id"},
		"leading zero":           {"GET", "/student/0123456", 400, "malformed_id"},
		"encoded digit":          {"GET", "/student/%3123456", 400, "malformed_id"},
		"no path":                {"GET", "/student", 404, "no_such_path"},
		"root":                   {"GET", "/", 404, "no_such_path"},
		"double slash":           {"GET", "//student/123456", 404, "no_such_path"},
		"parent directory":       {"GET", "/x/../student/123456", 404, "no_such_path"},
		"post":                   {"POST", "/student/123456", 405, "method_not_allowed"},
		"options":                {"OPTIONS", "/student/123456", 405, "method_not_allowed"},
		"delete of an unknown":   {"DELETE", "/student/5", 405, "method_not_allowed"},
		"post elsewhere":         {"POST", "/elsewhere", 404, "no_such_path"},
		"alive":                  {"GET", "/healthz", 200, ""},
		"alive without its body": {"HEAD", "/healthz", 200, ""},
		"ready":                  {"GET", "/readyz", 200, ""},
		"post to ready":          {"POST", "/readyz", 405, "method_not_allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := parse(t, c.method, f.ask(t, c.method, c.target))
			if got.status != c.status {
				t.Errorf("got status %d, want %d", got.status, c.status)
			}
			if c.method == "HEAD" {
				if got.body != "" || got.length <= 0 {
					t.Errorf("got body %q and length %d, want none and the length of what GET returns", got.body, got.length)
				}
			} else if c.code != "" {
				if code := errorCode(t, got.body); code != c.code {
					t.Errorf("got error %q, want %q", code, c.code)
				}
			}
			page := c.status == 200 && strings.HasPrefix(c.target, "/student/")
			wantCache := "no-store"
			if page {
				wantCache = "public, max-age=60"
			}
			checkHeaders(t, got, map[string]string{
				"Content-Type": "application/json; charset=utf-8", "Cache-Control": wantCache,
				"Etag":  map[bool]string{true: etag}[page],
				"Allow": map[bool]string{true: "GET, HEAD"}[c.status == 405], "Server": "",
			})
			if page && c.method == "GET" && got.body != body {
				t.Errorf("got body %q, want %q", got.body, body)
			}
		})
	}
}

func checkHeaders(t *testing.T, got answer, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got := got.header.Get(name); got != value {
			t.Errorf("header %s: got %q, want %q", name, got, value)
		}
	}
}

func TestRevalidation(t *testing.T) {
	t.Parallel()
	f := start(t, students, httpapi.Open, always)
	for header, want := range map[string]int{
		etag:                               304,
		"W/" + etag:                        304,
		`"a", ` + etag + `, "b"`:           304,
		" * ":                              304,
		"":                                 200,
		`"0000000000000000"`:               200,
		strings.Trim(etag, `"`):            200, // no quotes: no tag
		`W/"a", "b"`:                       200,
		strings.Repeat(`"x",`, 100) + etag: 304,
	} {
		for _, method := range []string{"GET", "HEAD"} {
			got := parse(t, method, f.ask(t, method, "/student/123456", "If-None-Match: "+header))
			if got.status != want {
				t.Errorf("%s with %.60q: got status %d, want %d", method, header, got.status, want)
			}
			if want == 304 {
				checkHeaders(t, got, map[string]string{"Etag": etag, "Cache-Control": "public, max-age=60", "Content-Type": ""})
				if got.body != "" {
					t.Errorf("%s with %.60q: got body %q, want none", method, header, got.body)
				}
			}
		}
	}
}

func TestAccessCode(t *testing.T) {
	t.Parallel()
	f := start(t, students, httpapi.Code, always)
	for name, c := range map[string]struct {
		target, header string
		want           int
	}{
		"in the header":            {"/student/123456", code, 200},
		"in the query":             {"/student/123456?code=" + code, "", 200},
		"small letters and spaces": {"/student/123456", "7qx4 m2kd 90az", 200},
		"encoded in the query":     {"/student/123456?a=b&code=7qx4%20m2kd+90az", "", 200},
		"header comes first":       {"/student/123456?code=wrong", code, 200},
		"wrong in the header":      {"/student/123456?code=" + code, "wrong", 404},
		"none":                     {"/student/123456", "", 404},
		"empty":                    {"/student/123456?code=", "", 404},
		"one letter off":           {"/student/123456", "7QX4-M2KD-90AY", 404},
		"too short":                {"/student/123456", "7QX4-M2KD-90A", 404},
		"too long":                 {"/student/123456", code + "A", 404},
		"endless":                  {"/student/123456", strings.Repeat(code, 200), 404},
		"nobody's code":            {"/student/5", "????????????", 404},
		"student without a code":   {"/student/999", "", 404},
		"only dashes":              {"/student/999", "---", 404},
		"malformed id":             {"/student/x", code, 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var headers []string
			if c.header != "" {
				headers = append(headers, "X-Access-Code: "+c.header)
			}
			got := parse(t, "GET", f.ask(t, "GET", c.target, headers...))
			if got.status != c.want {
				t.Fatalf("got status %d, want %d", got.status, c.want)
			}
			if c.want == 200 {
				checkHeaders(t, got, map[string]string{"Cache-Control": "private, no-cache", "Etag": etag})
				if got.body != body {
					t.Errorf("got body %q, want %q", got.body, body)
				}
			}
		})
	}
}

var date = regexp.MustCompile(`Date: [^\r]*\r\n`)

// Nothing that comes back may tell a known id from an unknown one without the
// code.
func TestWrongCodeIsAnsweredAsUnknownID(t *testing.T) {
	t.Parallel()
	f := start(t, students, httpapi.Code, always)
	plain := func(method, target string, headers ...string) string {
		return date.ReplaceAllString(string(f.ask(t, method, target, headers...)), "")
	}
	for _, method := range []string{"GET", "HEAD", "POST"} {
		for _, headers := range [][]string{
			nil,
			{"X-Access-Code: wrong"},
			{"X-Access-Code: wrong", "If-None-Match: " + etag},
			{"If-None-Match: *"},
		} {
			known, unknown := plain(method, "/student/123456", headers...), plain(method, "/student/123457", headers...)
			if known != unknown {
				t.Errorf("%s with %q:\nknown id:   %q\nunknown id: %q", method, headers, known, unknown)
			}
		}
	}
	// The comparison above must be able to fail.
	right := "X-Access-Code: " + code
	if plain("GET", "/student/123456", right) == plain("GET", "/student/123457", right) {
		t.Error("with the right code: a known id is answered as an unknown one")
	}
}

// A missing code is counted by nobody, so its answer must not take the store's
// time, which may differ between ids that exist and others.
func TestWithoutACodeTheStoreIsNotAsked(t *testing.T) {
	t.Parallel()
	f := start(t, brokenStore{err: errors.New("asked")}, httpapi.Code, always)
	for _, target := range []string{"/student/123456", "/student/123456?code=", "/student/123457"} {
		if got := parse(t, "GET", f.ask(t, "GET", target, "X-Access-Code: ")); got.status != 404 {
			t.Errorf("%s: got status %d, want 404", target, got.status)
		}
	}
	// The store must be able to show that it was asked.
	if got := parse(t, "GET", f.ask(t, "GET", "/student/123456?code=x")); got.status != 503 {
		t.Errorf("with a code: got status %d, want the store's 503", got.status)
	}
}

// brokenStore fails or panics.
type brokenStore struct {
	err   error
	panic any
}

func (s brokenStore) Lookup(context.Context, int64) (results.Page, error) {
	if s.panic != nil {
		panic(s.panic)
	}
	return results.Page{}, s.err
}

func (brokenStore) Close() error { return nil }

func TestStoreFails(t *testing.T) {
	t.Parallel()
	f := start(t, brokenStore{err: errors.New("secret.db: disk on fire")}, httpapi.Code, always)
	began := time.Now()
	for range 5 {
		got := parse(t, "GET", f.ask(t, "GET", "/student/5?code="+code))
		if got.status != 503 || errorCode(t, got.body) != "unavailable" || strings.Contains(got.body, "secret") {
			t.Errorf("got status %d and %q, want 503, unavailable and no details", got.status, got.body)
		}
		checkHeaders(t, got, map[string]string{"Retry-After": "1", "Cache-Control": "no-store"})
	}
	most := 1 + int(time.Since(began)/(10*time.Second)) // one in ten seconds
	if got := strings.Count(f.logs.String(), "disk on fire"); got < 1 || got > most {
		t.Errorf("got %d log lines for 5 failures, want 1 to %d:\n%s", got, most, f.logs)
	}
	if got := f.sum(t, "results_store_failures_total"); got != 5 {
		t.Errorf("failures: got %v, want 5", got)
	}
	if got := parse(t, "GET", f.ask(t, "GET", "/healthz")); got.status != 200 {
		t.Errorf("/healthz: got status %d, want 200", got.status)
	}
}

func TestPanicIsAnswered(t *testing.T) {
	t.Parallel()
	f := start(t, brokenStore{panic: "oh no"}, httpapi.Open, always)
	for range 2 {
		got := parse(t, "GET", f.ask(t, "GET", "/student/5"))
		if got.status != 500 || errorCode(t, got.body) != "internal" || strings.Contains(got.body, "oh no") {
			t.Errorf("got status %d and %q, want 500, internal and no details", got.status, got.body)
		}
	}
	if got := f.sum(t, "http_panics_total"); got != 2 {
		t.Errorf("panics: got %v, want 2", got)
	}
	if got := f.sum(t, "http_requests_in_flight"); got != 0 {
		t.Errorf("in flight: got %v, want 0", got)
	}
	if got := f.logs.String(); strings.Count(got, "oh no") != 1 || !strings.Contains(got, "brokenStore") {
		t.Errorf("got log %q, want the panic once with its stack", got)
	}
}

func TestNotReady(t *testing.T) {
	t.Parallel()
	f := start(t, students, httpapi.Open, func() bool { return false })
	for target, want := range map[string]int{"/readyz": 503, "/healthz": 200, "/student/123456": 200} {
		if got := parse(t, "GET", f.ask(t, "GET", target)); got.status != want {
			t.Errorf("%s: got status %d, want %d", target, got.status, want)
		}
	}
}

func TestMetricsAreClosed(t *testing.T) {
	t.Parallel()
	f := start(t, students, httpapi.Open, always)
	count := func() (series int) {
		families, err := f.reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			series += len(family.GetMetric())
		}
		return series
	}
	before := count()
	for i, target := range []string{"/student/123456", "/student/7", "/student/x", "/a", "/b", "/c", "/healthz", "/readyz"} {
		f.ask(t, "GET", target)
		f.ask(t, fmt.Sprintf("VERB%d", i), target)
	}
	f.send(t, "garbage\r\n\r\n")
	if got := count(); got != before {
		t.Errorf("got %d series after requests, want %d as before", got, before)
	}
	// 6 targets twice and the garbage; probes are not counted.
	if got := f.sum(t, "http_requests_total"); got != 13 {
		t.Errorf("requests: got %v, want 13", got)
	}
	if got := f.sum(t, "http_request_duration_seconds"); got != 12 {
		t.Errorf("durations: got %v, want 12", got)
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	_, err := httpapi.New(httpapi.Config{Access: "public"})
	for _, want := range []string{`"public"`, `"code" or "open"`, "a store"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %s", err, want)
		}
	}
}

// The path of a found page allocates nothing: what benchmarks show, as a test.
func TestFoundPageAllocatesNothing(t *testing.T) {
	for name, cfg := range map[string]httpapi.Config{
		"open":   {Access: httpapi.Open},
		"code":   {Access: httpapi.Code},
		"limits": {Access: httpapi.Code, Limits: limits(func(c *guard.Config) { c.Burst = 1000 })},
	} {
		api := newAPIWith(t, cfg)
		var ctx fasthttp.RequestCtx
		var req fasthttp.Request
		req.SetRequestURI("http://x/student/123456?code=" + code)
		req.Header.Set("If-None-Match", `"other"`)
		ctx.Init(&req, nil, nil)
		got := testing.AllocsPerRun(100, func() {
			ctx.Response.Reset()
			api.Handle(&ctx)
		})
		// fasthttp gives the body's buffer back to a pool at each Reset here,
		// which a server does not do; one allocation is the pool's.
		if ctx.Response.StatusCode() != 200 || got > 1 {
			t.Errorf("%s: got status %d and %v allocations, want 200 and at most 1", name, ctx.Response.StatusCode(), got)
		}
	}
}
