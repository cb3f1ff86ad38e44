package httpapi_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"
	"go.uber.org/goleak"

	"loadstone/block/httpserver"
	"loadstone/block/openapitest"
	"loadstone/system/feed"
	"loadstone/system/feed/feedtest"
	"loadstone/system/feed/httpapi"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
}

// count is how many posts a fixture has: two journeys and one.
const count = 2*feed.Reading + 1

// faulty is a store that fails as it is told.
type faulty struct {
	feed.Store

	mu    sync.Mutex
	fails func(what string, posts []int64) error
	waits func(what string)
}

func (s *faulty) fail(fails func(what string, posts []int64) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = fails
}

// wait has details come when a function returns, outside of the lock.
func (s *faulty) wait(waits func(what string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits = waits
}

func (s *faulty) failure(what string, posts ...int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails == nil {
		return nil
	}
	return s.fails(what, posts)
}

func (s *faulty) Page(ctx context.Context, behind feed.Position, limit int) ([]feed.Post, error) {
	if err := s.failure("page"); err != nil {
		return nil, err
	}
	return s.Store.Page(ctx, behind, limit)
}

func (s *faulty) Notices(ctx context.Context, seen int64) (feed.Notices, error) {
	if err := s.failure("notices"); err != nil {
		return feed.Notices{}, err
	}
	return s.Store.Notices(ctx, seen)
}

func (s *faulty) Details(ctx context.Context, part feed.Part, posts []int64) (feed.Details, error) {
	s.mu.Lock()
	waits := s.waits
	s.mu.Unlock()
	if waits != nil {
		waits(string(part))
	}
	if err := s.failure(string(part), posts...); err != nil {
		return nil, err
	}
	return s.Store.Details(ctx, part, posts)
}

// fixture is a running server.
type fixture struct {
	addr  string
	store *faulty
	reg   *prometheus.Registry
}

// start starts a server of the posts 1 to count, and of more. Change may be nil.
func start(t *testing.T, change func(*httpapi.Config), more ...feed.Entry) fixture {
	t.Helper()
	return startReading(t, change, time.Minute, more...)
}

// startReading is start for a server that waits so long for a whole request.
func startReading(t *testing.T, change func(*httpapi.Config), timeout time.Duration, more ...feed.Entry) fixture {
	t.Helper()
	store := &feedtest.Memory{}
	if _, err := store.Fill(t.Context(), feedtest.Generator(t, 1, count), nil); err != nil {
		t.Fatal(err)
	}
	for i := range more {
		if err := store.Put(t.Context(), &more[i]); err != nil {
			t.Fatal(err)
		}
	}
	f := fixture{store: &faulty{Store: store}, reg: prometheus.NewRegistry()}
	c := httpapi.Config{
		Reader:     &feed.Reader{Store: f.store, Cursors: feed.NewCursors([]byte("key"), time.Hour)},
		Serializer: feed.Append, Ready: func() bool { return true },
		Logger: slog.New(slog.DiscardHandler), Registerer: f.reg,
	}
	if change != nil {
		change(&c)
	}
	api, err := httpapi.New(c)
	if err != nil {
		t.Fatal(err)
	}
	cfg := httpserver.DefaultConfig()
	cfg.ReadTimeout = timeout
	cfg.Handler, cfg.BadRequest, cfg.Registerer = api.Handle, api.BadRequest, f.reg
	f.addr = openapitest.Serve(t, cfg)
	return f
}

// client returns one that closes its connections with the test.
func client(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

// answer is what came back.
type answer struct {
	openapitest.Answer
	document string // the document's name for it
	raw      string // the body as it came
}

// ask sends METHOD TARGET with headers, closing the connection.
func (f fixture) ask(t *testing.T, request string, headers ...string) answer {
	t.Helper()
	lines := append([]string{request + " HTTP/1.1", "Host: feed", "Connection: close"}, headers...)
	return f.send(t, strings.Join(lines, "\r\n")+"\r\n\r\n")
}

var theDocument = sync.OnceValues(func() (*openapitest.Document, error) { return openapitest.Read("openapi.json") })

// send sends a request as it is, and compares the answer with the document.
func (f fixture) send(t *testing.T, raw string) answer {
	t.Helper()
	method, target, came := openapitest.Exchange(t, f.addr, raw)
	got := answer{Answer: came}
	document, err := theDocument()
	if err != nil {
		t.Fatal(err)
	}
	if got.raw = got.Body; got.Header.Get("Content-Encoding") != "" && method == "GET" {
		got.Body = f.decoded(t, got.Answer)
	}
	if got.document, err = document.Check(method, target, got.Answer); err != nil {
		t.Errorf("request %.80q: %v", raw, err)
	}
	return got
}

// decoded is the text of a compressed answer.
func (fixture) decoded(t *testing.T, a openapitest.Answer) string {
	t.Helper()
	var r fasthttp.Response
	r.Header.SetContentEncoding(a.Header.Get("Content-Encoding"))
	r.SetBodyString(a.Body)
	text, err := r.BodyUncompressed()
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// want compares the status, the body or a part of it, and headers: names and values in turn.
func (got answer) want(t *testing.T, status int, part string, headers ...string) {
	t.Helper()
	if got.Status != status || !strings.Contains(got.Body, part) {
		t.Errorf("got %d %.400q, want %d and %q", got.Status, got.Body, status, part)
	}
	for i := 0; i < len(headers); i += 2 {
		if value := got.Header.Get(headers[i]); value != headers[i+1] {
			t.Errorf("header %s: got %q, want %q", headers[i], value, headers[i+1])
		}
	}
}

// total is the sum of a counter over all but some values of its labels.
func (f fixture) total(t *testing.T, name string, without ...string) int {
	t.Helper()
	families, err := f.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && (len(m.GetLabel()) == 0 || !slices.Contains(without, m.GetLabel()[0].GetValue())) {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return int(sum)
}

// part is how a bundle has a part.
func part(name feed.Part, status int, body string) string {
	return fmt.Sprintf(`"%s":{"status":%d,"body":%s}`, name, status, body)
}
