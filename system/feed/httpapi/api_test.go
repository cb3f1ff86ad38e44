package httpapi_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/block/compress"
	"loadstone/system/feed"
	"loadstone/system/feed/feedtest"
	"loadstone/system/feed/httpapi"
)

// One journey takes exactly as many requests as package feed says, and its user has read the
// same in the end, byte for byte. Bundling leaves the store's work as it was; batching cuts
// it, unless each post is asked for by itself.
func TestJourney(t *testing.T) {
	t.Parallel()
	var first string
	for _, way := range feedtest.Ways() {
		for _, serializer := range []feed.Serializer{feed.Append, feed.Goccy, feed.Standard, feed.Maps} {
			for _, each := range []bool{false, true} {
				f := start(t, func(c *httpapi.Config) { c.Serializer, c.Reader.Each = serializer, each })
				read := feedtest.Journey(t, client(t), "http://"+f.addr, way)
				if first == "" {
					first = read
				}
				if read != first {
					t.Errorf("%s, %s, each %v: something else was read:\n%.1000s\nwant\n%.1000s", way.Name, serializer, each, read, first)
				}
				if n := f.total(t, "http_requests_total"); n != way.Requests {
					t.Errorf("%s: the server counted %d requests, want %d", way.Name, n, way.Requests)
				}
				want := map[string]int{"separate": 265, "bundled": 63 + 14 + 3*63, "batched": 7 + 14 + 3*7}[way.Name]
				if way.Name == "batched" && each {
					want = 7 + 14 + 3*63
				}
				if n := f.total(t, "feed_queries_total"); n != want {
					t.Errorf("%s, each %v: %d queries, want %d", way.Name, each, n, want)
				}
			}
		}
	}
	if lines := strings.Count(first, "\n"); lines != 4*feed.Reading-1 {
		t.Errorf("got %d lines, want each post with three details, but for one", lines)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	for target, posts := range map[string]int{"/feed": httpapi.DefaultPage, "/feed?limit=1": 1, "/feed?limit=100": 100, "/feed?cursor=": httpapi.DefaultPage} {
		got := f.ask(t, "GET "+target)
		got.want(t, 200, `"posts":[{"author":`)
		if n := strings.Count(got.Body, `"title":`); n != posts {
			t.Errorf("%s: got %d posts, want %d", target, n, posts)
		}
	}
	again := f.ask(t, "GET /feed?limit=1")
	f.ask(t, "GET /feed?limit=1", "If-None-Match: "+again.Header.Get("ETag")).want(t, 304, "", "Cache-Control", "public, no-cache")
	// A part of it is not to be had: the whole is as little, and may be another the next time.
	f.ask(t, "GET /feed?limit=1", "Range: bytes=0-5").want(t, 200, again.Body, "Accept-Ranges", "", "Content-Range", "")
	f.ask(t, "HEAD /feed?limit=1").want(t, 200, "", "ETag", again.Header.Get("ETag"))
}

func TestNotices(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.ask(t, "GET /notices").want(t, 200, fmt.Sprintf(`"unread":%d}`, feed.MaxUnread))
	f.ask(t, "GET /notices?seen=0").want(t, 200, `{"pinned":[{"post":97,`)
	f.ask(t, "GET /notices?seen=253402300799999").want(t, 200, `{"pinned":[],"unread":0}`)
}

// What is not within the bounds is refused with one clear sentence.
func TestRefusals(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	cursors := feed.NewCursors([]byte("key"), time.Hour)
	good := cursors.Write(feed.Position{Published: 5, ID: 6})
	flipped, _ := base64.RawURLEncoding.DecodeString(good)
	flipped[3] ^= 1
	ids := strings.TrimSuffix(strings.Repeat("1,", httpapi.MaxBundle+1), ",")
	for target, want := range map[string]string{
		"/feed?limit=1e9":                 `"bad_limit","message":"limit is not a number from 1 to 100: write one`,
		"/feed?limit=1000000000":          `"bad_limit"`,
		"/feed?limit=101":                 `"bad_limit"`,
		"/feed?limit=0":                   `"bad_limit"`,
		"/feed?limit=":                    `"bad_limit"`,
		"/feed?limit=-1":                  `"bad_limit"`,
		"/feed?limit=%31%30%30%30":        `"bad_limit"`,
		"/feed?cursor=x":                  `"bad_cursor","message":"this cursor is not one that this server gave out: begin again without a cursor"`,
		"/feed?cursor=" + good[:53] + "_": `"bad_cursor"`,
		"/feed?cursor=" + good + "A":      `"bad_cursor"`,
		"/feed?cursor=" + base64.RawURLEncoding.EncodeToString(flipped):                       `"bad_cursor"`,
		"/feed?cursor=" + feed.NewCursors([]byte("other"), time.Hour).Write(feed.Position{}):  `"bad_cursor"`,
		"/feed?cursor=" + feed.NewCursors([]byte("key"), -2*time.Hour).Write(feed.Position{}): `"expired_cursor","message":"this cursor is too old: begin again without a cursor"`,
		"/bundle":                           `"bad_posts","message":"write the ids of 1 to 50 posts, each once, as in /bundle?posts=1,2,3"`,
		"/bundle?posts=":                    `"bad_posts"`,
		"/bundle?posts=1,1":                 `"bad_posts"`,
		"/bundle?posts=1&posts=2":           `"bad_posts"`,
		"/bundle?posts=01":                  `"bad_posts"`,
		"/bundle?posts=1,,2":                `"bad_posts"`,
		"/bundle?posts=9999999999999999999": `"bad_posts"`,
		"/bundle?posts=" + ids:              `"bad_posts"`,
		"/bundle?posts=1&stream=":           `"bad_stream","message":"stream is not jsonl: write stream=jsonl`,
		"/bundle?posts=1&stream=true":       `"bad_stream"`,
		"/bundle?posts=0&stream=jsonl":      `"bad_posts"`,
		"/notices?seen=yesterday":           `"bad_seen"`,
		"/notices?seen=-5":                  `"bad_seen"`,
	} {
		f.ask(t, "GET "+target).want(t, 400, want, "Cache-Control", "no-store", "ETag", "")
	}
	for _, target := range []string{"/posts/x/media", "/posts/07/media", "/posts/7", "/posts/7/", "/posts/7/mediax", "/posts/7/media/", "/posts//media", "/posts/9999999999999999999/media"} {
		f.ask(t, "GET "+target).want(t, 404, `"no_such_path"`)
	}
	f.ask(t, "GET /posts/1000/author").want(t, 404, `"not_found"`)
	f.ask(t, "GET /posts/63/media").want(t, 404, `"not_found"`)
	f.ask(t, "POST /feed", "Content-Length: 0").want(t, 405, `"method_not_allowed"`, "Allow", "GET, HEAD")
	f.ask(t, "GET /feed?cursor="+good).want(t, 200, `"posts":[]`)
	// A million ids do not even fit into a request's line, and nothing takes a body.
	f.ask(t, "GET /bundle?posts="+strings.Repeat("1,", 1_000_000)).want(t, 431, `"headers_too_large"`)
	bomb := strings.Repeat("[", 5000)
	for _, header := range []string{"Content-Length: 5000", "Content-Length: 99999999999", "Content-Encoding: gzip\r\nContent-Length: 5000"} {
		f.send(t, "GET /bundle?posts=1 HTTP/1.1\r\nHost: feed\r\n"+header+"\r\n\r\n"+bomb).want(t, 413, `"body_too_large"`)
		f.send(t, "POST /bundle HTTP/1.1\r\nHost: feed\r\n"+header+"\r\n\r\n"+bomb).want(t, 413, `"body_too_large"`)
	}
	f.send(t, "POST /bundle HTTP/1.1\r\nHost: feed\r\nTransfer-Encoding: chunked\r\n\r\n1388\r\n"+bomb+"\r\n0\r\n\r\n").want(t, 413, `"body_too_large"`)
}

var errBroken = errors.New("table /var/secret is broken")

// Parts of a bundle are what single requests get, and fail one by one.
func TestBundle(t *testing.T) {
	t.Parallel()
	f := start(t, func(c *httpapi.Config) { c.Reader.Each = true })
	bodies := map[string]string{}
	for _, name := range feed.Parts() {
		for _, id := range []int{62, 63, 1000} {
			target := fmt.Sprintf("/posts/%d/%s", id, name)
			bodies[target] = f.ask(t, "GET "+target).Body
		}
	}
	whole := f.ask(t, "GET /bundle?posts=63,62,1000")
	whole.want(t, 200, `{"bundles":[{"post":63,`+part("media", 404, bodies["/posts/63/media"])+","+part("author", 200, bodies["/posts/63/author"])+","+
		part("responses", 200, bodies["/posts/63/responses"])+`},{"post":62,`+part("media", 200, bodies["/posts/62/media"])+",")
	whole.want(t, 200, `},{"post":1000,`+part("media", 404, bodies["/posts/1000/media"])+",", "Cache-Control", "public, no-cache")
	f.ask(t, "GET /bundle?posts=63,62,1000", "If-None-Match: "+whole.Header.Get("ETag")).want(t, 304, "")

	f.store.fail(func(what string, posts []int64) error {
		if what == "media" && posts[0] == 62 {
			return fmt.Errorf("read: %w", feed.ErrUnavailable)
		}
		if what == "author" && posts[0] == 61 {
			return errBroken
		}
		return nil
	})
	partly := f.ask(t, "GET /bundle?posts=62,61")
	partly.want(t, 200, `{"bundles":[{"post":62,"media":{"status":503,"body":{"error":{"code":"unavailable",`, "Cache-Control", "no-store", "ETag", "")
	partly.want(t, 200, part("responses", 200, bodies["/posts/62/responses"])+`},{"post":61,"media":{"status":200,`)
	partly.want(t, 200, `"author":{"status":500,"body":{"error":{"code":"internal",`)
	if strings.Contains(partly.Body, "secret") {
		t.Errorf("the answer tells how the store failed: %s", partly.Body)
	}
	if n := f.total(t, "feed_store_failures_total"); n != 2 {
		t.Errorf("%d failures were counted, want 2", n)
	}
	f.store.fail(func(string, []int64) error { return feed.ErrUnavailable })
	f.ask(t, "GET /bundle?posts=62,61").want(t, 503, `"unavailable"`, "Retry-After", "1")
}

// A bundle of which something failed is compressed as any other answer.
func TestPartlyFailedBundleIsNegotiated(t *testing.T) {
	t.Parallel()
	f := start(t, func(c *httpapi.Config) { c.Codings = compress.Codings{{Name: "br", Level: 1}} })
	f.store.fail(func(what string, _ []int64) error {
		if what == "media" {
			return feed.ErrUnavailable
		}
		return nil
	})
	plain := f.ask(t, "GET /bundle?posts=61,62")
	plain.want(t, 200, `"media":{"status":503,`, "Cache-Control", "no-store", "ETag", "", "Vary", "Accept-Encoding", "Content-Encoding", "")
	f.ask(t, "GET /bundle?posts=61,62", "Accept-Encoding: br").want(t, 200, plain.Body, "Cache-Control", "no-store", "ETag", "", "Vary", "Accept-Encoding", "Content-Encoding", "br")
	f.ask(t, "GET /bundle?posts=61,62", "Accept-Encoding: identity;q=0").want(t, 406, `"not_acceptable"`)
}

// A bundle is bounded in bytes: what does not fit is said, and fits by itself.
func TestFullBundle(t *testing.T) {
	t.Parallel()
	var large []feed.Entry
	var ids []string
	for id := range int64(4) {
		e := feedtest.Odd(1000+id, 1, feed.ShownComments)
		for i := range e.Comments {
			e.Comments[i].Text = strings.Repeat("<", feed.MaxText)
		}
		large = append(large, e)
		ids = append(ids, fmt.Sprint(e.ID))
	}
	f := start(t, nil, large...)
	got := f.ask(t, "GET /bundle?posts="+strings.Join(ids, ","))
	got.want(t, 200, `"responses":{"status":413,"body":{"error":{"code":"bundle_full"`)
	got.want(t, 200, `{"post":1003,"media":{"status":200,`)
	if full := strings.Count(got.Body, `"status":413`); full != 2 || len(got.Body) > httpapi.MaxBundleBytes+1000 {
		t.Errorf("got %d bytes, and %d parts that did not fit, want 2 of 4", len(got.Body), full)
	}
	stream := f.ask(t, "GET /bundle?stream=jsonl&posts="+strings.Join(ids, ","))
	if full := strings.Count(stream.Body, `"status":413,"body":{"error":{"code":"bundle_full"`); full != 2 || len(stream.Body) > httpapi.MaxBundleBytes+2000 {
		t.Errorf("streamed: got %d bytes, and %d parts that did not fit, want 2 of 4", len(stream.Body), full)
	}
	for _, id := range ids {
		f.ask(t, "GET /posts/"+id+"/responses").want(t, 200, `\u003c`)
	}
}

// lines reads a stream: each part under the name of its request, as a bundle has it.
func lines(t *testing.T, text string) map[string]string {
	t.Helper()
	parts := map[string]string{}
	for text := range strings.Lines(text) {
		var l struct {
			Post   int64           `json:"post"`
			Part   feed.Part       `json:"part"`
			Status int             `json:"status"`
			Body   json.RawMessage `json:"body"`
		}
		if err := json.Unmarshal([]byte(text), &l); err != nil || !strings.HasSuffix(text, "\n") {
			t.Fatalf("%q: %v", text, err)
		}
		parts[fmt.Sprintf("/posts/%d/%s", l.Post, l.Part)] = part(l.Part, l.Status, string(l.Body))
	}
	return parts
}

// A stream has the parts of the bundle, each once, whatever fails.
func TestStream(t *testing.T) {
	t.Parallel()
	for _, each := range []bool{false, true} {
		f := start(t, func(c *httpapi.Config) {
			c.Reader.Each, c.Codings = each, compress.Codings{{Name: "gzip", Level: 1}}
		})
		const target = "/bundle?posts=63,62,1000&stream=jsonl"
		got := f.ask(t, "GET "+target, "Accept-Encoding: gzip")
		got.want(t, 200, "", "Content-Type", "application/jsonl", "Cache-Control", "no-store", "Content-Encoding", "", "ETag", "", "X-Accel-Buffering", "no")
		parts := lines(t, got.Body)
		if len(parts) != 9 || strings.Count(got.Body, "\n") != 9 {
			t.Errorf("each %v: got the parts %v", each, slices.Sorted(maps.Keys(parts)))
		}
		for target, text := range parts {
			whole := f.ask(t, "GET "+target)
			if want := part(feed.Part(target[strings.LastIndex(target, "/")+1:]), whole.Status, whole.Body); text != want {
				t.Errorf("each %v: %s is %s, want %s", each, target, text, want)
			}
		}
		f.ask(t, "HEAD "+target).want(t, 200, "", "Content-Type", "application/jsonl", "Content-Length", "")
		f.ask(t, "GET "+target, "Accept-Encoding: identity;q=0, gzip").want(t, 406, `"not_acceptable"`)
		f.store.fail(func(what string, _ []int64) error {
			if what == "author" {
				return errBroken
			}
			return feed.ErrUnavailable
		})
		failed := lines(t, f.ask(t, "GET "+target).Body)
		for target, text := range failed {
			if want := map[bool]string{true: `{"status":500,"body":{"error":{"code":"internal",`, false: `{"status":503,"body":{"error":{"code":"unavailable",`}[strings.HasSuffix(target, "author")]; !strings.Contains(text, want) {
				t.Errorf("%s: got %s, want %s", target, text, want)
			}
		}
		if len(failed) != 9 {
			t.Errorf("all failed: got %v", failed)
		}
	}
}

// Parts come when they have been read, while others are still being read.
func TestStreamDoesNotWait(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	goOn := make(chan struct{})
	f.store.wait(func(what string) {
		if what == "responses" {
			<-goOn
		}
	})
	response, err := client(t).Get("http://" + f.addr + "/bundle?posts=61,62&stream=jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	reader := bufio.NewReader(response.Body)
	for n := range 6 {
		if n == 4 {
			close(goOn)
		}
		text, err := reader.ReadString('\n')
		if err != nil || strings.Contains(text, `"part":"responses","status":200,`) != (n >= 4) {
			t.Fatalf("line %d: got %q and %v", n, text, err)
		}
	}
	if rest, err := io.ReadAll(reader); err != nil || len(rest) > 0 {
		t.Errorf("got %q and %v", rest, err)
	}
}

// Every answer that the document lists is given by the server. That every answer given is
// in the document is checked wherever a test sends a request.
func TestDocumentIsExercised(t *testing.T) {
	t.Parallel()
	document, err := theDocument()
	if err != nil {
		t.Fatal(err)
	}
	if err := document.Whole(); err != nil {
		t.Error(err)
	}
	missing := document.Names()
	f := start(t, func(c *httpapi.Config) { c.Codings = compress.Codings{{Name: "gzip", Level: 1}} })
	targets := []string{"/feed", "/feed?limit=0", "/bundle", "/bundle?posts=1", "/notices", "/notices?seen=x", "/openapi.json", "/healthz", "/readyz", "/nothing"}
	for _, name := range feed.Parts() {
		targets = append(targets, "/posts/1/"+string(name), "/posts/1000/"+string(name))
	}
	visit := func(headers ...string) {
		for _, target := range targets {
			for _, method := range []string{"GET", "HEAD", "POST"} {
				delete(missing, f.ask(t, method+" "+target, headers...).document)
			}
		}
	}
	visit()
	visit("If-None-Match: *")
	visit("Accept-Encoding: identity;q=0")
	for _, err := range []error{feed.ErrUnavailable, errBroken, feed.ErrOverloaded} {
		f.store.fail(func(string, []int64) error { return err })
		visit()
	}
	stopping := start(t, func(c *httpapi.Config) { c.Ready = func() bool { return false } })
	for _, method := range []string{"GET", "HEAD"} {
		delete(missing, stopping.ask(t, method+" /readyz").document)
	}
	for _, request := range []string{
		"garbage\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nCookie: " + strings.Repeat("c", 20_000) + "\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n",
	} {
		delete(missing, f.send(t, request).document)
	}
	hasty := startReading(t, nil, 200*time.Millisecond)
	delete(missing, hasty.send(t, "GET / HTTP/1.1\r\nHost: x\r\nX-").document)
	if len(missing) > 0 {
		t.Errorf("in the document and never seen:\n%s", strings.Join(slices.Sorted(maps.Keys(missing)), "\n"))
	}
}

// Answers are compressed for who takes it, and say the same then. Each coding has a tag of
// its own, with which a client is told that it has the answer.
func TestCompression(t *testing.T) {
	t.Parallel()
	all, err := compress.Parse("zstd,br:5,gzip:9")
	if err != nil {
		t.Fatal(err)
	}
	f := start(t, func(c *httpapi.Config) { c.Codings = all })
	plain := f.ask(t, "GET /feed")
	plain.want(t, 200, `"posts":[`, "Vary", "Accept-Encoding", "Content-Encoding", "")
	tags := map[string]string{plain.Header.Get("ETag"): "identity"}
	for _, coding := range []string{"gzip", "br", "zstd"} {
		accept := "Accept-Encoding: " + coding + ", identity;q=0"
		got := f.ask(t, "GET /feed", accept)
		got.want(t, 200, "", "Content-Encoding", coding, "Vary", "Accept-Encoding", "Cache-Control", "public, no-cache")
		if got.Body != plain.Body || len(got.raw) > len(plain.Body)/2 {
			t.Errorf("%s: %d bytes of %d say %.400q", coding, len(got.raw), len(plain.Body), got.Body)
		}
		tag := got.Header.Get("ETag")
		if other, twice := tags[tag]; twice {
			t.Errorf("%s and %s have one tag", coding, other)
		}
		tags[tag] = coding
		f.ask(t, "GET /feed", accept, "If-None-Match: "+tag).want(t, 304, "", "ETag", tag, "Vary", "Accept-Encoding", "Content-Encoding", "")
		f.ask(t, "GET /feed", "If-None-Match: "+tag).want(t, 200, `"posts":[`)
		f.ask(t, "HEAD /feed", accept).want(t, 200, "", "Content-Encoding", coding)
	}
	f.ask(t, "GET /feed", "Accept-Encoding: gzip;q=0.5, br;q=0.9").want(t, 200, "", "Content-Encoding", "br")
	f.ask(t, "GET /feed", "Accept-Encoding: identity;q=0, deflate").want(t, 406, `"not_acceptable"`, "Cache-Control", "no-store")
	f.ask(t, "GET /notices?seen=253402300799999", "Accept-Encoding: gzip, identity;q=0").want(t, 200, `"unread":0`, "Content-Encoding", "gzip")
	f.ask(t, "GET /notices?seen=253402300799999", "Accept-Encoding: *").want(t, 200, `"unread":0`, "Content-Encoding", "")
	f.ask(t, "GET /notices?seen=253402300799999", "Accept-Encoding: gzip").want(t, 200, `"unread":0`, "Content-Encoding", "")
}

// Servers that compress at different levels give different bytes different tags.
func TestTagsOfLevels(t *testing.T) {
	t.Parallel()
	bodies := map[string]string{}
	for level := 1; level <= 9; level += 4 {
		f := start(t, func(c *httpapi.Config) { c.Codings = compress.Codings{{Name: "gzip", Level: level}} })
		got := f.ask(t, "GET /feed", "Accept-Encoding: gzip")
		tag := got.Header.Get("ETag")
		if other, twice := bodies[tag]; twice && other != got.raw {
			t.Errorf("level %d has the tag %s of other bytes", level, tag)
		}
		bodies[tag] = got.raw
	}
	if _, err := httpapi.New(httpapi.Config{Serializer: feed.Append, Codings: compress.Codings{{Name: "gzip", Level: 10}}}); err == nil || !strings.Contains(err.Error(), "write 1 to 9") {
		t.Errorf("a level that there is not: got %v", err)
	}
}

// Many are compressed at once, more than there are encoders, large and small, and none gets
// another's bytes or none.
func TestCompressionAtOnce(t *testing.T) {
	t.Parallel()
	all, err := compress.Parse("zstd,br,gzip")
	if err != nil {
		t.Fatal(err)
	}
	f := start(t, func(c *httpapi.Config) { c.Codings = all })
	targets := []string{"/feed?limit=3", "/feed?limit=100", "/openapi.json", "/bundle?posts=1,2,3"}
	want := map[string]string{}
	for _, target := range targets {
		want[target] = f.ask(t, "GET "+target).Body
	}
	var asking sync.WaitGroup
	for i := range 48 {
		asking.Go(func() {
			target, coding := targets[i%len(targets)], all[i%len(all)].Name
			got := f.ask(t, "GET "+target, "Accept-Encoding: "+coding)
			if got.Status != 200 || got.Header.Get("Content-Encoding") != coding || got.Body != want[target] {
				t.Errorf("%s in %s: got %d and %d bytes that say %.100q", target, coding, got.Status, len(got.raw), got.Body)
			}
		})
	}
	asking.Wait()
}

// BenchmarkCodings says what a page of the list costs in each coding: bytes, how many times fewer, and CPU
// here and for the client.
func BenchmarkCodings(b *testing.B) {
	g, page := feedtest.Generator(b, 1, 28), feed.Page{}
	for id := int64(1); id <= 28; id++ {
		page.Posts = append(page.Posts, g.Entry(id).Post)
	}
	text := page.AppendJSON(nil)
	all, err := compress.Parse("zstd,br,gzip")
	if err != nil {
		b.Fatal(err)
	}
	for _, usual := range all {
		for _, level := range []int{1, 2, 3, 4, 5, 6, 9, 11} {
			coding := compress.Coding{Name: usual.Name, Level: level}
			if _, err := compress.Parse(coding.String()); err != nil {
				continue // there is no such level
			}
			encode, packed := coding.Encoder(httpapi.MaxBundleBytes), []byte(nil)
			b.Run(coding.String()+"/encode", func(b *testing.B) {
				for b.Loop() {
					packed = encode(packed[:0], text)
				}
				b.ReportMetric(float64(len(packed)), "bytes")
				b.ReportMetric(float64(len(text))/float64(len(packed)), "ratio")
			})
			b.Run(coding.String()+"/decode", func(b *testing.B) {
				var r fasthttp.Response
				r.Header.SetContentEncoding(coding.Name)
				r.SetBody(encode(nil, text))
				for b.Loop() {
					if got, err := r.BodyUncompressed(); err != nil || len(got) != len(text) {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
