package httpapi_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"
	"golang.org/x/sys/unix"

	"loadstone/system/feed"
	"loadstone/system/feed/feedtest"
	"loadstone/system/feed/httpapi"
	"loadstone/system/feed/sqlitestore"
)

// BenchmarkJourney says what a journey costs in each way, but for HTTP: from a SQLite store whose
// answers are in the cache.
func BenchmarkJourney(b *testing.B) {
	store, err := sqlitestore.Open(b.Context(), filepath.Join(b.TempDir(), "feed.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			b.Error(err)
		}
	}()
	if _, err := store.Fill(b.Context(), feedtest.Generator(b, 1, count), nil); err != nil {
		b.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	cache, err := feed.NewCache(store, 32<<20, registry)
	if err != nil {
		b.Fatal(err)
	}
	api, err := httpapi.New(httpapi.Config{
		Reader:     &feed.Reader{Store: store, Cursors: feed.NewCursors([]byte("key"), 240*time.Hour), Cache: cache},
		Serializer: feed.Append, Ready: func() bool { return true }, Logger: slog.New(slog.DiscardHandler), Registerer: registry,
	})
	if err != nil {
		b.Fatal(err)
	}
	ask := func(target string) []byte {
		var ctx fasthttp.RequestCtx
		var request fasthttp.Request
		request.SetRequestURI(target)
		ctx.Init(&request, nil, nil)
		api.Handle(&ctx)
		if status := ctx.Response.StatusCode(); status != fasthttp.StatusOK {
			b.Fatalf("GET %s: status %d", target, status)
		}
		return ctx.Response.Body()
	}
	for _, way := range feedtest.Ways() {
		b.Run(way.Name, func(b *testing.B) {
			targets := targets(b, way, ask)
			b.ReportAllocs()
			began := processorTime(b)
			for b.Loop() {
				for _, target := range targets {
					ask(target)
				}
			}
			b.ReportMetric(float64(processorTime(b)-began)/float64(b.N), "cpu-ns/op")
		})
	}
}

// processorTime is what the process has had, in nanoseconds.
func processorTime(b *testing.B) int64 {
	b.Helper()
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return t.Nano()
}

// targets are what the requests of a journey ask for.
func targets(b *testing.B, way feedtest.Way, ask func(target string) []byte) (all []string) {
	b.Helper()
	for read, cursor := 0, ""; read < feed.Reading; {
		list := fmt.Sprintf("/feed?limit=%d&cursor=%s", min(way.Posts, feed.Reading-read), cursor)
		var page feed.Page
		if err := json.Unmarshal(ask(list), &page); err != nil || len(page.Posts) == 0 {
			b.Fatalf("the list has %d posts: %v", len(page.Posts), err)
		}
		all, cursor, read = append(all, list), page.Next, read+len(page.Posts)
		var ids []string
		for i := range page.Posts {
			id := fmt.Sprint(page.Posts[i].ID)
			ids = append(ids, id)
			for _, part := range feed.Parts() {
				if !way.Bundled && (part != feed.PartMedia || page.Posts[i].Media > 0) {
					all = append(all, "/posts/"+id+"/"+string(part))
				}
			}
		}
		if way.Bundled {
			all = append(all, "/bundle?posts="+strings.Join(ids, ","))
		}
	}
	for range feed.Asking {
		all = append(all, "/notices?seen=0")
	}
	if len(all) != way.Requests {
		b.Fatalf("a journey takes %d requests, want %d", len(all), way.Requests)
	}
	return all
}
