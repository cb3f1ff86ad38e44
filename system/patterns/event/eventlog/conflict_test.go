package eventlog

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/block/queue"
	"loadstone/block/route"
	"loadstone/system/patterns/event"
)

func bodyOf(t *testing.T, s *Store, id string) string {
	t.Helper()
	var body []byte
	if err := s.db.Read.QueryRowContext(t.Context(), "SELECT body FROM events WHERE id = ?", id).Scan(&body); err != nil {
		t.Fatalf("the event %s: %v", id, err)
	}
	return string(body)
}

// An id that is used again for another event is refused, and does its neighbours in
// the same transaction no harm.
func TestStoreRefusesAnotherEventWithTheSameID(t *testing.T) {
	t.Parallel()
	s, _ := openStore(t, filepath.Join(t.TempDir(), "events.db"), CommitGroup)
	one := event.Event{ID: "1", Key: "k", Body: []byte(`{"paid":10}`), Accepted: time.Unix(1, 0)}
	again, body, key := one, one, one
	again.Accepted = time.Unix(2, 0) // sent again later: the same event
	body.Body, key.Key = []byte(`{"paid":99}`), "other"
	for name, c := range map[string]struct {
		e    event.Event
		want error
	}{"the same": {again, nil}, "another body": {body, errConflict}, "another key": {key, errConflict}} {
		if err := s.put(t.Context(), []event.Event{one}); err != nil {
			t.Fatal(err)
		}
		if err := s.put(t.Context(), []event.Event{c.e}); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	calls := []*call{
		{events: []event.Event{{ID: "2", Body: []byte("2")}}},
		{events: []event.Event{{ID: "3", Body: []byte("3")}, body, {ID: "4", Body: []byte("4")}}},
		{events: []event.Event{{ID: "5", Body: []byte("5")}}},
	}
	if err := s.write(t.Context(), calls); err != nil {
		t.Fatal(err)
	}
	for i, want := range []error{nil, errConflict, nil} {
		if !errors.Is(calls[i].conflict, want) || (want == nil) != (calls[i].conflict == nil) {
			t.Errorf("call %d of one transaction: got %v, want %v", i, calls[i].conflict, want)
		}
	}
	missing, err := s.missing(t.Context(), []string{"1", "2", "3", "4", "5"})
	if err != nil || fmt.Sprint(missing) != "[4]" {
		t.Errorf("missing: got %q and %v, want what is behind the conflict in its call", missing, err)
	}
	if got := bodyOf(t, s, "1"); got != `{"paid":10}` {
		t.Errorf("got %s stored, want the first", got)
	}
	if got := s.conflicts.Load(); got != 3 {
		t.Errorf("conflicts: got %d, want 3", got)
	}
}

// From a queue it is refused, so that it is put aside; a call is answered 422.
func TestConflictsAreToldToBothSides(t *testing.T) {
	t.Parallel()
	store, _ := openStore(t, filepath.Join(t.TempDir(), "events.db"), CommitEach)
	s := &eventLog{cfg: DefaultConfig(), store: store, age: newAge()}
	first := event.Event{ID: "1", Body: []byte("10"), Accepted: time.Now()}
	second := event.Event{ID: "1", Body: []byte("99"), Accepted: time.Now()}
	if err := s.take(t.Context(), []queue.Message{first.Message()}); err != nil {
		t.Fatal(err)
	}
	if err := s.take(t.Context(), []queue.Message{second.Message()}); !errors.Is(err, queue.ErrRefused) {
		t.Errorf("from a queue: got %v, want %v", err, queue.ErrRefused)
	}
	if err := s.take(t.Context(), []queue.Message{first.Message()}); err != nil {
		t.Errorf("the first again: got %v, want it known", err)
	}
	var ctx fasthttp.RequestCtx
	ctx.Init(&fasthttp.Request{}, &net.TCPAddr{}, nil)
	for body, want := range map[string]int{"10": 200, "99": 422, "\"\xff\"": 400} {
		ctx.Request.Reset()
		ctx.Response.Reset()
		ctx.Request.Header.SetMethod("POST")
		ctx.Request.Header.Set(event.IDHeader, "1")
		ctx.Request.SetBodyString(body)
		if err := s.postEvent(&ctx); err != nil {
			route.Prepare(answers).Write(&ctx, err)
		}
		if got := ctx.Response.StatusCode(); got != want {
			t.Errorf("a call with %q: got %d and %s, want %d", body, got, ctx.Response.Body(), want)
		}
	}
}
