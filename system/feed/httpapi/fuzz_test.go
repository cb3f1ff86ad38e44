package httpapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"loadstone/block/compress"
	"loadstone/system/feed"
	"loadstone/system/feed/feedtest"
	"loadstone/system/feed/httpapi"
)

// Whatever a client asks for, it gets JSON of bounded size in a coding that it takes, or one error with a code and a sentence.
func FuzzRequests(f *testing.F) {
	cursors := feed.NewCursors([]byte("key"), time.Hour)
	for _, target := range []string{
		"/feed", "/feed?limit=1e9", "/feed?limit=1000000000", "/feed?limit=2&cursor=" + cursors.Write(feed.Position{Published: 1 << 60, ID: 1 << 60}),
		"/feed?cursor=" + strings.Repeat("A", 54), "/posts/1/media", "/posts/63/media", "/posts/%31/author", "/posts/-1/responses", "/posts//", "/notices?seen=5",
		"/bundle?posts=1,2,3", "/bundle?posts=" + strings.Repeat("1,", 1_000_000), "/bundle?posts=1&stream=jsonl", "/openapi.json", "/readyz", "//feed", "/feed/../feed", "*", "",
	} {
		for _, accept := range []string{"", "gzip;q=0, br", "identity;q=0", "*;q=0", "zstd;q=9, ,,;q=", "GZIP"} {
			f.Add(target, accept, "*")
		}
	}
	store := &feedtest.Memory{}
	if _, err := store.Fill(f.Context(), feedtest.Generator(f, 1, count), nil); err != nil {
		f.Fatal(err)
	}
	codings, err := compress.Parse("zstd:1,br:1,gzip:1")
	if err != nil {
		f.Fatal(err)
	}
	api, err := httpapi.New(httpapi.Config{
		Reader: &feed.Reader{Store: store, Cursors: cursors}, Serializer: feed.Append, Codings: codings, Ready: func() bool { return true },
		Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, target, accept, known string) {
		var request fasthttp.Request
		request.Header.SetMethod(fasthttp.MethodGet)
		request.SetRequestURI(target)
		request.Header.Set(fasthttp.HeaderAcceptEncoding, accept)
		request.Header.Set(fasthttp.HeaderIfNoneMatch, known)
		var ctx fasthttp.RequestCtx
		ctx.Init(&request, nil, nil)
		api.Handle(&ctx)
		body, err := ctx.Response.BodyUncompressed()
		if err != nil {
			t.Fatalf("%.200q, %q: %v", target, accept, err)
		}
		if err := sound(&ctx.Response, body); err != nil {
			t.Errorf("%.200q, %q: %d with %.200q: %v", target, accept, ctx.Response.StatusCode(), body, err)
		}
	})
}

// sound checks the form of an answer.
func sound(r *fasthttp.Response, body []byte) error {
	status := r.StatusCode()
	if len(body) > httpapi.MaxBundleBytes+4096 {
		return fmt.Errorf("it has %d bytes", len(body))
	}
	switch {
	case status == fasthttp.StatusNotModified:
		if len(body) > 0 {
			return errors.New("it has a body")
		}
		return nil
	case strings.HasPrefix(string(r.Header.ContentType()), "application/jsonl"):
		for line := range strings.Lines(string(body)) {
			if !json.Valid([]byte(line)) || !strings.HasSuffix(line, "\n") {
				return fmt.Errorf("the line %.100q", line)
			}
		}
		return nil
	case status == fasthttp.StatusOK:
		if strings.HasPrefix(string(r.Header.ContentType()), "application/json") && !json.Valid(body) {
			return errors.New("this is no JSON")
		}
		return nil
	}
	var failure struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(body, &failure); err != nil {
		return err
	}
	if e := failure.Error; e.Code == "" || e.Message == "" || strings.Contains(e.Message, "\n") {
		return errors.New("this is no error with a code and a sentence")
	}
	if status < 400 || status >= 500 {
		return errors.New("a client cannot do this")
	}
	return nil
}
