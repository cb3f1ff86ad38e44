package edge

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/valyala/fasthttp"
	"go.uber.org/goleak"

	"loadstone/block/dictionary"
	"loadstone/block/objects"
	"loadstone/block/route"
	"loadstone/system/feed/snapshot"
)

// What fasthttp keeps for as long as the process lives, of servers. Its workers that compress are to be none: what is too much
// for their queue comes back empty.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
}

// fixture is an edge, and a publisher for it.
type fixture struct {
	*Edge

	t     testing.TB
	store *counting
	path  string
	p     *snapshot.Publisher
}

// counting counts what is read, and fails when it is told to.
type counting struct {
	objects.Store
	gets atomic.Int64
	down atomic.Bool
}

var errDown = errors.New("the store is down")

func (c *counting) Get(ctx context.Context, name string) ([]byte, objects.Tag, error) {
	c.gets.Add(1)
	if c.down.Load() {
		return nil, "", errDown
	}
	return c.Store.Get(ctx, name)
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{t: t, path: t.TempDir()}
	d, err := objects.OpenDirectory(f.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	f.store = &counting{Store: d}
	cfg := DefaultConfig()
	cfg.Store, cfg.Logger, cfg.Registerer = f.store, slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	if f.Edge, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	publishing := snapshot.DefaultConfig()
	publishing.Store = d
	if f.p, err = snapshot.NewPublisher(publishing); err != nil {
		t.Fatal(err)
	}
	return f
}

// texts are pages of which the first changes with the word.
func texts(word string) []snapshot.Page {
	pages := []snapshot.Page{{Name: "pages/1.json", Body: []byte(`{"text":"` + strings.Repeat(word+" ", 300) + `"}`)}}
	for n := range 5 {
		pages = append(pages, snapshot.Page{Name: fmt.Sprintf("pages/%d.json", n+2), Body: []byte(strings.Repeat(fmt.Sprintf(`{"page":%d},`, n+2), 100))})
	}
	return append(pages, snapshot.Page{Name: "tiny.html", Body: []byte("<")})
}

func (f *fixture) publish(o snapshot.Options, pages ...snapshot.Page) *snapshot.Snapshot {
	f.t.Helper()
	s, err := f.p.Publish(f.t.Context(), func(context.Context, *snapshot.Snapshot) ([]snapshot.Page, error) { return pages, nil }, o)
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// get asks for an address. Headers are given as names and values.
func (f *fixture) get(path string, headers ...string) *fasthttp.Response {
	f.t.Helper()
	var request fasthttp.Request
	request.Header.SetMethod(fasthttp.MethodGet)
	request.SetRequestURI(path)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	var ctx fasthttp.RequestCtx
	ctx.Init(&request, nil, nil)
	if err := f.Handle(&ctx); err != nil {
		failed, ok := errors.AsType[*route.Error](err)
		if !ok || len(ctx.Response.Body()) > 0 {
			f.t.Errorf("%s: %v", path, err)
		}
		ctx.Response.SetStatusCode(map[route.Code]int{Unavailable: 503, route.NoSuchPath: 404, NotAcceptable: 406}[failed.Code])
	}
	return &ctx.Response
}

// want checks status, body and, given as names and values, headers.
func (f *fixture) want(r *fasthttp.Response, status int, body []byte, headers ...string) {
	f.t.Helper()
	if r.StatusCode() != status || body != nil && !bytes.Equal(r.Body(), body) {
		f.t.Errorf("got %d with %.60q, want %d with %.60q", r.StatusCode(), r.Body(), status, body)
	}
	for i := 0; i < len(headers); i += 2 {
		if got := string(r.Header.Peek(headers[i])); got != headers[i+1] {
			f.t.Errorf("%s: got %q, want %q", headers[i], got, headers[i+1])
		}
	}
}

// decoded is the body without its coding.
func decoded(t *testing.T, r *fasthttp.Response) []byte {
	t.Helper()
	body, err := r.BodyUncompressed()
	if err != nil {
		t.Fatal(err)
	}
	return body
}

const immutable = "public, max-age=31536000, s-maxage=300, immutable"

func TestWhatIsServed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.want(f.get("/feed/manifest.json"), 503, nil)
	if f.Ready() {
		t.Error("it is ready without a snapshot")
	}
	f.look(t.Context())
	f.want(f.get("/feed/manifest.json"), 503, nil)
	s := f.publish(snapshot.Options{}, texts("first")...)
	f.look(t.Context())
	if !f.Ready() {
		t.Error("it is not ready")
	}
	brief := "public, max-age=5, stale-while-revalidate=5, stale-if-error=3600"
	f.want(f.get("/feed/manifest.json"), 200, s.Raw(), "Cache-Control", brief, "Content-Type", "application/json", HeaderVersion, "1")
	f.want(f.get("/feed/"+s.Manifest.Index.Name), 200, s.Index(), "Cache-Control", immutable, HeaderVersion, "")
	f.want(f.get("/feed/whole/"+s.Manifest.Whole.SHA256), 200, s.Whole(), "Cache-Control", immutable, "Use-As-Dictionary", `match="/feed/whole/*"`,
		"Vary", "Accept-Encoding, Available-Dictionary")
	for part, body := range s.Parts() {
		f.want(f.get("/feed/"+part.Name), 200, body, "Cache-Control", immutable, "Vary", "Accept-Encoding")
		f.want(f.get("/feed/"+part.Page), 200, body, "Cache-Control", brief, HeaderVersion, "1")
	}
	f.want(f.get("/feed/tiny.html"), 200, []byte("<"), "Content-Type", "text/html; charset=utf-8")
	// Objects of the store that no manifest names, and what is none.
	if _, err := f.store.Put(t.Context(), "objects/1/"+strings.Repeat("a", 64), []byte("x"), objects.Absent); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/feed", "/feed/", "/feed/objects/", "/feed/objects/1/" + strings.Repeat("a", 64), "/feed/whole", "/feed/pages/9.json", "/manifest.json",
		"/feed//manifest.json", "/feed/./manifest.json", "/feed/%6danifest.json", "/feed/../feed/manifest.json", "/feed/manifest.json/"} {
		f.want(f.get(path), 404, nil)
	}
	// Nobody's request has reached the store.
	if n := f.store.gets.Load(); n != 2+1+7 { // manifests, index, pages
		t.Errorf("%d objects were read", n)
	}
}

func TestFormsOfAText(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.publish(snapshot.Options{}, texts("first")...)
	f.look(t.Context())
	want, _ := s.Page("pages/1.json")
	tags := map[string]bool{}
	for accept, coding := range map[string]string{"": "", "gzip": "gzip", "zstd": "zstd", "gzip, deflate, br, zstd": "br", "br;q=0, *": "zstd", "identity;q=0, gzip;q=0.1": "gzip", "dcz": ""} {
		got := f.get("/feed/pages/1.json", "Accept-Encoding", accept)
		f.want(got, 200, nil, "Content-Encoding", coding, "Vary", "Accept-Encoding")
		if !bytes.Equal(decoded(t, got), want) {
			t.Errorf("%s: got %.60q", accept, got.Body())
		}
		tag := string(got.Header.Peek("ETag"))
		tags[tag] = true
		for _, match := range []string{tag, "W/" + tag, `"x", ` + tag, "*"} {
			f.want(f.get("/feed/pages/1.json", "Accept-Encoding", accept, "If-None-Match", match), 304, []byte{}, "ETag", tag, "Content-Encoding", "")
		}
		f.want(f.get("/feed/pages/1.json", "Accept-Encoding", accept, "If-None-Match", `"x"`), 200, nil)
		// A part is one of the form.
		f.want(f.get("/feed/pages/1.json", "Accept-Encoding", accept, "Range", "bytes=5-9", "If-Range", tag), 206, got.Body()[5:10], "Content-Range", fmt.Sprintf("bytes 5-9/%d", len(got.Body())))
	}
	if len(tags) != 4 {
		t.Errorf("four forms have the tags %v", tags)
	}
	for asked, want := range map[string][]byte{"bytes=0-0": want[:1], "bytes=-3": want[len(want)-3:], "bytes=10-": want[10:]} {
		f.want(f.get("/feed/pages/1.json", "Range", asked), 206, want)
	}
	for _, asked := range []string{"bytes=0-1,3-4", "lines=1-2", "bytes=5-9"} {
		f.want(f.get("/feed/pages/1.json", "Range", asked, "If-Range", `"another"`), 200, want, "Content-Range", "")
	}
	for path, size := range map[string]int{"pages/1.json": len(want), "whole/" + s.Manifest.Whole.SHA256: len(s.Whole()), s.Manifest.Index.Name: len(s.Index())} {
		for _, asked := range []string{"bytes=100000-", "bytes=-0"} {
			f.want(f.get("/feed/"+path, "Range", asked), 416, []byte{}, "Content-Range", fmt.Sprintf("bytes */%d", size),
				"Cache-Control", "no-store", "ETag", "", "Vary", "", "Use-As-Dictionary", "", HeaderVersion, "", "Content-Encoding", "")
		}
	}
	f.want(f.get("/feed/pages/1.json", "Accept-Encoding", "identity;q=0"), 406, nil)
	// What does not become smaller is not compressed, unless the client takes nothing else.
	f.want(f.get("/feed/tiny.html", "Accept-Encoding", "gzip"), 200, []byte("<"), "Content-Encoding", "")
	f.want(f.get("/feed/tiny.html", "Accept-Encoding", "gzip, identity;q=0"), 200, nil, "Content-Encoding", "gzip")
	// Each form is made once, also for a thousand who ask at once, and for the next version that has the text.
	var first atomic.Pointer[byte] // of the form
	ask := func() {
		var group sync.WaitGroup
		for range 1000 {
			group.Go(func() {
				body := f.get("/feed/pages/2.json", "Accept-Encoding", "gzip").Body()
				first.CompareAndSwap(nil, &body[0])
				if first.Load() != &body[0] {
					t.Error("it was compressed again")
				}
			})
		}
		group.Wait()
	}
	ask()
	f.publish(snapshot.Options{}, texts("second")...)
	f.look(t.Context())
	ask()
	if got := decoded(t, f.get("/feed/pages/2.json", "Accept-Encoding", "gzip")); !bytes.Contains(got, []byte(`{"page":2}`)) {
		t.Errorf("got %q", got)
	}
}

// What is served are bytes of the versions that are kept, so that others are not held in memory; and nothing is taken for
// what another address ends with.
func TestTextsAreOfTheirVersion(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	same := []byte(strings.Repeat("same ", 100))
	hash := sha256.Sum256(same)
	named := hex.EncodeToString(hash[:])
	f.publish(snapshot.Options{}, snapshot.Page{Name: "same.json", Body: []byte("not yet")}, snapshot.Page{Name: named, Body: []byte("something else")})
	f.look(t.Context())
	for n := range 3 {
		s := f.publish(snapshot.Options{}, snapshot.Page{Name: "same.json", Body: same}, snapshot.Page{Name: named, Body: fmt.Append(nil, n)})
		f.look(t.Context())
		f.want(f.get("/feed/same.json"), 200, same)
		body, _ := f.current().snapshot.Page("same.json")
		if got := f.current().resources["/feed/same.json"].body; s.Manifest.Version != uint64(n+2) || &got[0] != &body[0] {
			t.Errorf("version %d: the bytes are of another one", s.Manifest.Version)
		}
	}
}

// Whatever range and dictionary a client names, it gets a part of a form that there is.
func FuzzRequests(f *testing.F) {
	for _, asked := range []string{"bytes=0-0", "bytes=-5", "bytes=5-", "bytes=9-1", "bytes=99999999999999999999-", "bytes=0-0,2-2", "lines=1", "bytes=--1", "bytes=+1-2"} {
		f.Add(asked, "gzip", ":x:", "")
	}
	e := newFixture(f)
	s := e.publish(snapshot.Options{}, texts("first")...)
	e.look(f.Context())
	body, _ := s.Page("pages/1.json")
	f.Fuzz(func(t *testing.T, asked, accept, available, same string) {
		f := &fixture{Edge: e.Edge, t: t}
		r := f.get("/feed/pages/1.json", "Range", asked, "Accept-Encoding", accept, "Available-Dictionary", available, "If-Range", same)
		switch coding := string(r.Header.Peek("Content-Encoding")); r.StatusCode() {
		case 200:
			if coding == "" && !bytes.Equal(r.Body(), body) || coding != "" && !bytes.Equal(decoded(t, r), body) {
				t.Errorf("%q of %q: got %.60q", asked, accept, r.Body())
			}
		case 206:
			if coding == "" && !bytes.Contains(body, r.Body()) || len(r.Body()) == 0 {
				t.Errorf("%q of %q: got %.60q", asked, accept, r.Body())
			}
		case 406, 416:
			if len(r.Body()) > 0 {
				t.Errorf("%q: %d with a body", asked, r.StatusCode())
			}
		default:
			t.Errorf("%q of %q: got %d", asked, accept, r.StatusCode())
		}
	})
}

// What is too large for a dictionary is not offered as one.
func TestLargeIsNoDictionary(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for n, want := range map[int]string{1 << 10: `match="/feed/whole/*"`, dictionary.MaxSize: ""} {
		s := f.publish(snapshot.Options{Force: true}, snapshot.Page{Name: "large.json", Body: make([]byte, n)})
		f.look(t.Context())
		f.want(f.get("/feed/whole/"+s.Manifest.Whole.SHA256, "Range", "bytes=0-0"), 206, nil, "Use-As-Dictionary", want)
	}
}

// Who has the version before gets the delta from it; who offers another dictionary does not.
func TestDictionaries(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.publish(snapshot.Options{}, texts("first")...)
	f.look(t.Context())
	second := f.publish(snapshot.Options{}, texts("second")...)
	f.look(t.Context())
	d, err := dictionary.New(first.Whole(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	other, err := dictionary.New(second.Whole(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	address := "/feed/whole/" + second.Manifest.Whole.SHA256
	for _, accept := range []string{"dcz", "gzip, br, zstd, dcz"} {
		got := f.get(address, "Accept-Encoding", accept, "Available-Dictionary", d.Available())
		f.want(got, 200, nil, "Content-Encoding", "dcz", "Cache-Control", immutable, "Use-As-Dictionary", `match="/feed/whole/*"`, "Vary", "Accept-Encoding, Available-Dictionary")
		if text, err := d.Decompress(nil, got.Body()); err != nil || !bytes.Equal(text, second.Whole()) || !bytes.HasPrefix(got.Body(), d.Header()) {
			t.Errorf("%s: got %d bytes, %v", accept, len(got.Body()), err)
		}
		f.want(f.get(address, "Accept-Encoding", accept, "Available-Dictionary", d.Available(), "If-None-Match", string(got.Header.Peek("ETag"))), 304, []byte{})
	}
	for _, have := range [][]string{{"gzip", d.Available()}, {"dcz;q=0", d.Available()}, {"dcz", other.Available()}, {"dcz", ":x:"}, {"dcz", d.Name()}, {"dcz", ""}} {
		if coding := f.get(address, "Accept-Encoding", have[0], "Available-Dictionary", have[1]).Header.Peek("Content-Encoding"); string(coding) == "dcz" {
			t.Errorf("%q got dcz", have)
		}
	}
	// A delta that is broken in the store is done without.
	third := f.publish(snapshot.Options{}, texts("third")...)
	for _, delta := range third.Manifest.Deltas {
		if err := os.WriteFile(filepath.Join(f.path, delta.Name), []byte("wrong"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f.look(t.Context())
	f.want(f.get("/feed/whole/"+third.Manifest.Whole.SHA256, "Accept-Encoding", "dcz", "Available-Dictionary", other.Available()), 200, third.Whole(), "Content-Encoding", "")
}

// The version before is served while it is kept; what is purged is gone.
func TestVersionsComeAndGo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	address := func(s *snapshot.Snapshot) string {
		for part := range s.Parts() {
			return "/feed/" + part.Name
		}
		return ""
	}
	first := f.publish(snapshot.Options{}, texts("first")...)
	f.look(t.Context())
	second := f.publish(snapshot.Options{}, texts("second")...)
	f.look(t.Context())
	f.want(f.get(address(first)), 200, first.Pages()[0].Body)
	f.want(f.get("/feed/pages/1.json"), 200, second.Pages()[0].Body, HeaderVersion, "2")
	third := f.publish(snapshot.Options{}, texts("third")...)
	f.look(t.Context())
	f.want(f.get(address(first)), 404, nil)
	f.want(f.get(address(second)), 200, second.Pages()[0].Body)
	purged, err := f.p.Purge(t.Context(), func(p snapshot.Page) []byte { return bytes.ReplaceAll(p.Body, []byte("third"), []byte("-")) })
	if err != nil {
		t.Fatal(err)
	}
	f.look(t.Context())
	for _, gone := range []*snapshot.Snapshot{first, second, third} {
		f.want(f.get(address(gone)), 404, nil)
		f.want(f.get("/feed/whole/"+gone.Manifest.Whole.SHA256), 404, nil)
	}
	f.want(f.get("/feed/pages/1.json"), 200, purged.Pages()[0].Body, HeaderVersion, "4")
	// Also if it was purged, and something else published, between two looks.
	if _, err := f.p.Purge(t.Context(), func(p snapshot.Page) []byte { return append(p.Body, ' ') }); err != nil {
		t.Fatal(err)
	}
	f.publish(snapshot.Options{}, texts("sixth")...)
	f.look(t.Context())
	f.want(f.get(address(purged)), 404, nil)
}

// Who begins before anything was published serves the first version soon, however long the interval is.
func TestFirstVersionIsServedSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.cfg.Interval = time.Hour
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.Run(ctx) }()
		synctest.Wait()
		f.want(f.get("/feed/pages/1.json"), 503, nil)
		f.publish(snapshot.Options{}, texts("first")...)
		time.Sleep(time.Second)
		synctest.Wait()
		f.want(f.get("/feed/pages/1.json"), 200, nil)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// The store does not answer, or has what is broken: the last version is served for an hour, and the next one as soon as
// there is one.
func TestStaleIfError(t *testing.T) {
	t.Parallel()
	path := t.TempDir() // of the real world
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.publish(snapshot.Options{}, texts("first")...)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.Run(ctx) }()
		synctest.Wait()
		f.want(f.get("/feed/pages/1.json"), 200, nil)
		manifest := filepath.Join(f.path, "manifest.json")
		for _, fail := range []func(){
			func() { f.store.down.Store(true) },
			func() {
				f.store.down.Store(false)
				os.Rename(manifest, path+"/kept")
				os.WriteFile(manifest, []byte("{}"), 0o600)
			},
		} {
			fail()
			time.Sleep(f.cfg.StaleIfError - f.cfg.Interval)
			synctest.Wait()
			f.want(f.get("/feed/pages/1.json"), 200, nil)
			time.Sleep(3 * f.cfg.Interval)
			synctest.Wait()
			f.want(f.get("/feed/pages/1.json"), 503, nil)
			f.store.down.Store(false)
			if _, err := os.Stat(path + "/kept"); err == nil {
				os.Rename(path+"/kept", manifest)
			}
			time.Sleep(2 * f.cfg.Interval)
			synctest.Wait()
			f.want(f.get("/feed/pages/1.json"), 200, nil)
		}
		if n := testutil.ToFloat64(f.metrics.looks.WithLabelValues("failed")); n < 100 {
			t.Errorf("%v looks failed", n)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(c *Config){
		"missing": func(c *Config) { c.Store = nil }, `path is "feed"`: func(c *Config) { c.Path = "feed" }, `path is "/a/"`: func(c *Config) { c.Path = "/a/" },
		"path is": func(c *Config) { c.Path = `/a"b` }, "interval is 0s": func(c *Config) { c.Interval = 0 }, "shared is -1": func(c *Config) { c.Shared = -1 },
	} {
		cfg := newFixture(t).cfg
		cfg.Registerer = prometheus.NewRegistry()
		change(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
