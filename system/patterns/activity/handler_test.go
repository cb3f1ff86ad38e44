package activity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"loadstone/block/commit"
	"loadstone/block/route"
	"loadstone/system/patterns"
)

// memory is a store in memory that fails as it is told.
type memory struct {
	mu   sync.Mutex
	kept map[string]Activity
	err  error // of what comes next
	hang bool  // until the context ends
}

func (m *memory) wait(ctx context.Context) error {
	if m.hang {
		<-ctx.Done()
		return fmt.Errorf("waiting: %w", ctx.Err())
	}
	return m.err
}

func (m *memory) Put(ctx context.Context, a *Activity) error {
	if err := m.wait(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept[a.ID] = *a
	return nil
}

func (m *memory) Get(ctx context.Context, id string) (Activity, error) {
	if err := m.wait(ctx); err != nil {
		return Activity{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	a, ok := m.kept[id]
	if !ok {
		return a, ErrNotFound
	}
	return a, nil
}

func (*memory) Durability() Durability { return Durability{false, "memory"} }
func (m *memory) Close() error         { return m.err }

type fixture struct {
	*Handler
	store    *memory
	log      bytes.Buffer
	registry *prometheus.Registry
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{store: &memory{kept: map[string]Activity{}}, registry: prometheus.NewRegistry()}
	f.Handler = New(f.store, slog.New(slog.NewTextHandler(&f.log, nil)), f.registry)
	return f
}

func (f *fixture) post(body string) *fasthttp.RequestCtx {
	ctx := &fasthttp.RequestCtx{}
	ctx.Request.Header.SetMethod("POST")
	ctx.Request.SetRequestURI(Path)
	ctx.Request.SetBodyString(body)
	f.answer(ctx, f.Post(ctx))
	return ctx
}

func (*fixture) answer(ctx *fasthttp.RequestCtx, err error) {
	if err != nil {
		route.Prepare(patterns.Errors).Write(ctx, err)
	}
}

func (f *fixture) get(id string) *fasthttp.RequestCtx {
	ctx := &fasthttp.RequestCtx{}
	ctx.Request.SetRequestURI(Path + "/" + id)
	f.answer(ctx, f.Get(ctx))
	return ctx
}

func want(t *testing.T, ctx *fasthttp.RequestCtx, status int, text string) {
	t.Helper()
	if got := ctx.Response.StatusCode(); got != status || !strings.Contains(string(ctx.Response.Body()), text) {
		t.Errorf("got %d %s, want %d and %s", got, ctx.Response.Body(), status, text)
	}
	retry := string(ctx.Response.Header.Peek("Retry-After"))
	if wanted := status == fasthttp.StatusServiceUnavailable; wanted != (retry == "1") {
		t.Errorf("%d: got Retry-After %q", status, retry)
	}
}

// requests is a count of activities_requests_total.
func (f *fixture) requests(t *testing.T, operation, outcome string) float64 {
	t.Helper()
	families, err := f.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if l := m.GetLabel(); family.GetName() == "activities_requests_total" && l[0].GetValue() == operation && l[1].GetValue() == outcome {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("there is no count of %s %s", operation, outcome)
	return 0
}

func TestWhatIsPostedCanBeRead(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 2 { // sent again, it is stored once
		ctx := f.post(good)
		want(t, ctx, 201, `{"id":"order-4711"}`)
		if got := string(ctx.Response.Header.Peek("Location")); got != "/activities/order-4711" {
			t.Errorf("got Location %q", got)
		}
	}
	a := f.store.kept["order-4711"]
	text, _ := Encode(&a)
	want(t, f.get("order-4711"), 200, string(text))
	want(t, f.get("order-4712"), 404, `"not_found"`)
	if got := f.requests(t, "put", "done"); got != 2 {
		t.Errorf("got %v counted, want 2", got)
	}
	if got := f.requests(t, "get", "not_found"); got != 1 {
		t.Errorf("got %v counted, want 1", got)
	}
}

func TestWrongInputIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	want(t, f.post(`{"id":"\`), 400, `"invalid_activity"`)
	want(t, f.post(strings.Repeat(" ", MaxBody+1)), 413, `"too_large"`)
	want(t, f.get("a%2Fb"), 400, `"invalid_id"`)
	want(t, f.get(""), 400, `"invalid_id"`)
	if len(f.store.kept) > 0 {
		t.Error("something was stored")
	}
	if got := f.requests(t, "put", "invalid"); got != 2 {
		t.Errorf("got %v counted, want 2", got)
	}
}

func TestWhatTheStoreSaysBecomesAnAnswer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{OfCommit(commit.ErrFull), 503, `"busy"`},
		{OfCommit(commit.ErrClosed), 503, `"unavailable"`},
		{fmt.Errorf("put: %w", ErrUnavailable), 503, `"unavailable"`},
		{OfCommit(errors.New("no space left, says /secret/disk")), 500, `"internal"`},
	} {
		f.store.err = c.err
		want(t, f.post(good), c.status, c.code)
		ctx := f.get("x")
		want(t, ctx, c.status, c.code)
		if strings.Contains(string(ctx.Response.Body()), "secret") {
			t.Errorf("the client was told %s", ctx.Response.Body())
		}
	}
	// Once, and not about being busy, which is no failure.
	if got := strings.Count(f.log.String(), "the store of activities failed"); got != 1 {
		t.Errorf("got %d lines of log, want 1:\n%s", got, f.log.String())
	}
	if f.Close() == nil {
		t.Error("a store that fails to close: got no error")
	}
}

func TestAStoreThatHangsIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.store.hang = true
		began := time.Now()
		want(t, f.post(good), 503, `"unavailable"`)
		if took := time.Since(began); took != timeout {
			t.Errorf("it took %v, want %v", took, timeout)
		}
		for range 3 { // each five seconds: one of two is told
			want(t, f.get("x"), 503, `"unavailable"`)
		}
		if got := strings.Count(f.log.String(), "dropped=1"); got != 1 {
			t.Errorf("got the log\n%s\nwant one line that counts another", f.log.String())
		}
	})
}
