package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"loadstone/block/httpserver"
	"loadstone/system/results"
	"loadstone/system/results/httpapi"
)

const (
	knownID = 123456
	code    = "7QX4-M2KD-90AZ"
	tag     = 0x00c0ffee12345678
	etag    = `"00c0ffee12345678"`
	body    = `{"id":123456,"name":"Abeba Tesfaye"}`
)

var students = memStore{
	knownID: {Body: []byte(body), Code: []byte("7QX4M2KD90AZ"), Tag: tag},
	999:     {Body: []byte(`{"id":999}`), Tag: 1}, // imported without a code
}

// fixture is a running server.
type fixture struct {
	addr string
	reg  *prometheus.Registry
	logs *logs
}

// logs is a slog destination that tests can read.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func start(t *testing.T, store results.Store, access httpapi.Access, ready func() bool) fixture {
	t.Helper()
	f := fixture{reg: prometheus.NewRegistry(), logs: &logs{}}
	api, err := httpapi.New(httpapi.Config{
		Store: store, Access: access, Ready: ready,
		Logger: slog.New(slog.NewTextHandler(f.logs, nil)), Registerer: f.reg,
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := httpserver.DefaultConfig()
	cfg.Addr, cfg.Drain, cfg.ReadTimeout = "127.0.0.1:0", 0, 500*time.Millisecond
	cfg.Handler, cfg.BadRequest, cfg.Registerer = api.Handle, api.BadRequest, f.reg
	server, err := httpserver.Listen(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	f.addr = server.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("server: %v", err)
		}
	})
	return f
}

func always() bool { return true }

// ask sends a request with the headers, closing the connection after it, and
// returns all bytes that come back.
func (f fixture) ask(t *testing.T, method, target string, headers ...string) []byte {
	t.Helper()
	lines := append([]string{method + " " + target + " HTTP/1.1", "Host: results", "Connection: close"}, headers...)
	return f.send(t, strings.Join(lines, "\r\n")+"\r\n\r\n")
}

func (f fixture) send(t *testing.T, raw string) []byte {
	t.Helper()
	conn, err := net.Dial("tcp", f.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	// A refused request may be answered before it has been sent whole.
	_, _ = io.WriteString(conn, raw)
	answer, err := io.ReadAll(conn)
	if err != nil && len(answer) == 0 {
		t.Fatalf("request %.60q: %v", raw, err)
	}
	return answer
}

// answer is a parsed one.
type answer struct {
	status int
	header http.Header
	length int64 // as the header says
	body   string
}

// parse reads the answer to a request by method.
func parse(t *testing.T, method string, raw []byte) answer {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("answer %.200q: %v", raw, err)
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, resp.ContentLength, string(got)}
}

// errorCode reads the code of a JSON error body.
func errorCode(t *testing.T, text string) string {
	t.Helper()
	var e struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(text), &e); err != nil || e.Error.Message == "" {
		t.Errorf("body %q: got %v, want an error with a message", text, err)
	}
	return e.Error.Code
}

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
		`"00c0ffee12345679"`:               200,
		"00c0ffee12345678":                 200, // no quotes: no tag
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
	for range 5 {
		got := parse(t, "GET", f.ask(t, "GET", "/student/5"))
		if got.status != 503 || errorCode(t, got.body) != "unavailable" || strings.Contains(got.body, "secret") {
			t.Errorf("got status %d and %q, want 503, unavailable and no details", got.status, got.body)
		}
		checkHeaders(t, got, map[string]string{"Retry-After": "1", "Cache-Control": "no-store"})
	}
	if got := strings.Count(f.logs.String(), "disk on fire"); got != 1 {
		t.Errorf("got %d log lines for 5 failures, want 1:\n%s", got, f.logs)
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

// Whatever comes in, the server answers for itself, and never with 5xx.
func TestAttacks(t *testing.T) {
	t.Parallel()
	f := start(t, students, httpapi.Code, always)
	get := func(target string) string {
		return "GET " + target + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	}
	for name, c := range map[string]struct {
		raw  string
		want int
	}{
		"path traversal":         {get("/student/../../etc/passwd"), 400},
		"encoded traversal":      {get("/student/..%2f..%2fetc%2fpasswd"), 400},
		"traversal to health":    {get("/student/../healthz"), 400},
		"SQL":                    {get("/student/1'%20OR%20'1'='1"), 400},
		"SQL comment":            {get("/student/123456;--"), 400},
		"zero byte":              {get("/student/123456%00"), 400},
		"bad escape":             {get("/student/%zz"), 400},
		"line break in the path": {get("/student/1%0d%0aX-Evil:%201"), 400},
		"many digits":            {get("/student/" + strings.Repeat("9", 5000)), 400},
		"other script's digits":  {get("/student/\xd9\xa1\xd9\xa2\xd9\xa3"), 400},
		"absolute address":       {get("http://elsewhere/student/123456"), 404}, // no code: as unknown
		"huge header":            {"GET /student/1 HTTP/1.1\r\nHost: x\r\nCookie: " + strings.Repeat("c", 20_000) + "\r\n\r\n", 431},
		"many headers":           {"GET /student/1 HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("A: b\r\n", 5000) + "\r\n", 431},
		"huge body":              {"POST /student/1 HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n", 413},
		"slow header":            {"GET /student/1 HTTP/1.1\r\nHost: x\r\nX-", 408},
		"body on a GET":          {"GET /student/5 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc", 404},
		"both lengths":           {"POST /student/5 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 405},
		"garbage":                {"\x00\x01\x02\x03\r\n\r\n", 400},
		"TLS hello":              {"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n", 400},
		"space before the colon": {"GET /student/5 HTTP/1.1\r\nHost : x\r\n\r\n", 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := parse(t, "GET", f.send(t, c.raw))
			if got.status != c.want {
				t.Errorf("got status %d and %.100q, want %d", got.status, got.body, c.want)
			}
			_ = errorCode(t, got.body)
			checkHeaders(t, got, map[string]string{"Cache-Control": "no-store", "X-Evil": ""})
		})
	}
}

// sum adds up all series of a metric.
func (f fixture) sum(t *testing.T, name string) float64 {
	t.Helper()
	families, err := f.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	total := 0.0
	for _, family := range families {
		if family.GetName() == name {
			for _, m := range family.GetMetric() {
				total += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return total
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
	for _, access := range []httpapi.Access{httpapi.Open, httpapi.Code} {
		api := newAPI(t, access)
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
			t.Errorf("access %s: got status %d and %v allocations, want 200 and at most 1", access, ctx.Response.StatusCode(), got)
		}
	}
}

func newAPI(tb testing.TB, access httpapi.Access) *httpapi.API {
	tb.Helper()
	api, err := httpapi.New(httpapi.Config{
		Store: students, Access: access, Ready: always,
		Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		tb.Fatal(err)
	}
	return api
}

// No path, code or tag makes the API answer with 5xx, or open a page without
// its code.
func FuzzHandle(f *testing.F) {
	f.Add("/student/123456", code, etag)
	f.Add("/student/123456?code=7qx4m2kd90az", "", "*")
	f.Add("/student/%31", "\x00", `W/"`)
	f.Add("/healthz", "-", "")
	f.Add("//student//1?code=%zz&code=", " ", ",,,")
	api := newAPI(f, httpapi.Code)
	f.Fuzz(func(t *testing.T, target, given, match string) {
		var ctx fasthttp.RequestCtx
		var req fasthttp.Request
		req.Header.SetMethod("GET")
		req.SetRequestURI(target)
		req.Header.Set("X-Access-Code", given)
		req.Header.Set("If-None-Match", match)
		ctx.Init(&req, nil, nil)
		api.Handle(&ctx)
		status := ctx.Response.StatusCode()
		if status >= 500 {
			t.Errorf("got status %d for %q", status, target)
		}
		opened := bytes.Contains(ctx.Response.Body(), []byte("Abeba")) || status == 304
		wanted := strings.NewReplacer(" ", "", "-", "").Replace(strings.ToUpper(target + given))
		if opened && !strings.Contains(wanted, "7QX4M2KD90AZ") && !strings.Contains(target, "%") && !strings.Contains(target, "+") {
			t.Errorf("target %q and code %q opened the page", target, given)
		}
	})
}
