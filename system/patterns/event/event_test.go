package event

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"loadstone/block/queue"
	"loadstone/block/route"
	"loadstone/system/patterns"
)

func TestEventThroughAMessage(t *testing.T) {
	t.Parallel()
	want := Event{ID: "a", Key: "k", Body: []byte(`{"x":1}`), Accepted: time.Unix(1700000000, 123)}
	got, err := Open(want.Message())
	if err != nil || got.ID != want.ID || got.Key != want.Key || !bytes.Equal(got.Body, want.Body) || !got.Accepted.Equal(want.Accepted) {
		t.Errorf("got %+v and %v, want %+v", got, err, want)
	}
}

// FuzzOpen: what comes from a queue is an event that can be packed again, or refused.
func FuzzOpen(f *testing.F) {
	f.Add("a", "k", []byte("\x01\x00\x00\x00\x00\x00\x00\x00\x07{}"))
	f.Add("", "", []byte("\x02"))
	f.Add("a\n", "k", []byte("\x01\xff\xff\xff\xff\xff\xff\xff\xff[1]"))
	f.Fuzz(func(t *testing.T, id, key string, body []byte) {
		e, err := Open(queue.Message{ID: id, Key: key, Body: body})
		if err != nil {
			if !errors.Is(err, queue.ErrRefused) {
				t.Errorf("got %v, want it to be %v", err, queue.ErrRefused)
			}
			return
		}
		if m := e.Message(); m.ID != id || m.Key != key || !bytes.Equal(m.Body, body) {
			t.Errorf("packed again: got %+v, want %q %q %q", m, id, key, body)
		}
	})
}

func FuzzParseTarget(f *testing.F) {
	for _, text := range []string{"http://a:1", "nats://a:1?full=wait&capacity=7", "kafka://a:1,b:2", "nats://a:1,b:2", "off", "http://a:1?x=y", "nats://:1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		target, err := ParseTarget(text)
		if err != nil {
			return
		}
		if len(target.Hosts) == 0 || target.Hosts[0] == "" || target.Capacity < 1 {
			t.Errorf("%q: got %+v, want a host and a capacity", text, target)
		}
	})
}

// answering is a sender with one answer.
type answering struct {
	err error
	got Event
}

func (a *answering) send(_ context.Context, e *Event) error {
	a.got = *e
	return a.err
}
func (*answering) ready() bool  { return true }
func (*answering) close() error { return nil }

func TestHandle(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    error
		body   string
		status int
	}{
		"accepted":            {nil, `{"a":1}`, 202},
		"the queue is full":   {fmt.Errorf("no: %w", queue.ErrFull), `{"a":1}`, 503},
		"nobody takes it":     {context.DeadlineExceeded, `{"a":1}`, 503},
		"the body is no JSON": {nil, `{"a"`, 400},
		"it is not UTF-8":     {nil, "\"\xff\"", 400},
		"the id is another's": {fmt.Errorf("no: %w", errConflict), `{"a":1}`, 422},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, err := New(t.Context(), "http://127.0.0.1:1", prometheus.NewRegistry())
			if err != nil {
				t.Fatal(err)
			}
			sender := &answering{err: c.err}
			h.sender, h.status = sender, 202
			var ctx fasthttp.RequestCtx
			ctx.Request.Header.SetMethod("POST")
			ctx.Request.Header.Set(KeyHeader, "k")
			ctx.Request.SetBodyString(c.body)
			answer(h, &ctx)
			if got := ctx.Response.StatusCode(); got != c.status {
				t.Errorf("status: got %d, want %d", got, c.status)
			}
			retry := string(ctx.Response.Header.Peek("Retry-After"))
			if (retry != "") != (c.status == 503) {
				t.Errorf("Retry-After: got %q with status %d", retry, c.status)
			}
			if c.status == 202 && (sender.got.Key != "k" || !strings.Contains(string(ctx.Response.Body()), sender.got.ID)) {
				t.Errorf("got %+v sent and %s answered, want the key, and the id that was made", sender.got, ctx.Response.Body())
			}
		})
	}
}

// answer lets the handler answer as the service does.
func answer(h *Handler, ctx *fasthttp.RequestCtx) {
	if err := h.Handle(ctx); err != nil {
		route.Prepare(patterns.Errors).Write(ctx, err)
	}
}
