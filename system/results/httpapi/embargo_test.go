package httpapi_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"loadstone/system/results"
	"loadstone/system/results/httpapi"
)

// told is what a store has said last about publication.
type told struct {
	last atomic.Pointer[results.Publication]
}

func (p *told) say(said results.Publication)     { p.last.Store(&said) }
func (p *told) publication() results.Publication { return *p.last.Load() }

func unknown() results.Publication { return results.Publication{} }

// Before results are out nothing tells one id from another, and no page is looked up.
func TestEmbargo(t *testing.T) {
	t.Parallel()
	at, store := noon.In(time.FixedZone("EAT", 3*3600)), &countingStore{Store: students}
	var p told
	p.say(results.Publication{At: at, Left: 90*time.Second + 1})
	// The clock of the process is of no importance: it is a year late.
	f := startWith(t, httpapi.Config{Store: store, Access: httpapi.Code, Now: clockAt(noon.AddDate(1, 0, 0)).now, Publication: p.publication})
	ask := func(target string, headers ...string) (answer, string) {
		raw := f.ask(t, "GET", target, headers...)
		return parse(t, "GET", raw), date.ReplaceAllString(string(raw), "")
	}
	same := func(status int) answer {
		first, want := ask("/student/123456", rightCode)
		for _, target := range []string{"/student/123456", "/student/5", "/student/999999999999999999"} {
			for _, header := range []string{"A: b", rightCode, "X-Access-Code: wrong", "If-None-Match: " + etag, "If-None-Match: *"} {
				if _, got := ask(target, header); got != want {
					t.Errorf("%s with %q:\ngot  %q\nwant %q", target, header, got, want)
				}
			}
		}
		if first.status != status {
			t.Errorf("got status %d, want %d", first.status, status)
		}
		checkHeaders(t, first, map[string]string{"Cache-Control": "no-store", "Etag": "", "Expires": ""})
		return first
	}
	first := same(403)
	const want = `{"error":{"code":"embargoed","message":"results are published at 2026-07-01T12:00:00Z","publish_at":"2026-07-01T12:00:00Z"}}`
	if first.body != want {
		t.Errorf("got %s, want %s", first.body, want)
	}
	checkHeaders(t, first, map[string]string{"Retry-After": "91"})
	for target, want := range map[string]int{"/readyz": 200, "/openapi.json": 200, "/student/x": 400} {
		if got, _ := ask(target); got.status != want {
			t.Errorf("%s: got status %d, want %d", target, got.status, want)
		}
	}
	// The time is over, and the store has not said so.
	p.say(results.Publication{At: at, Left: -time.Hour})
	checkHeaders(t, same(403), map[string]string{"Retry-After": "1"})
	// The store has not said anything.
	p.say(results.Publication{})
	same(503)
	if got := store.asked.Load(); got != 0 {
		t.Errorf("%d pages were looked up", got)
	}
	if got := f.sum(t, "results_refused_total", "embargoed"); got != 32 {
		t.Errorf("embargoed: got %v, want 32", got)
	}
	p.say(results.Publication{Out: true, At: at})
	if got, _ := ask("/student/123456", rightCode); got.status != 200 || got.body != body {
		t.Errorf("out: got status %d, want 200", got.status)
	}
	if got, _ := ask("/student/5", rightCode); got.status != 404 {
		t.Errorf("out, an unknown id: got status %d, want 404", got.status)
	}
	// Postponed.
	p.say(results.Publication{At: at.Add(time.Hour), Left: time.Hour})
	if got := same(403); got.header.Get("Retry-After") != "3600" {
		t.Errorf("postponed: got %s seconds, want 3600", got.header.Get("Retry-After"))
	}
}

// countingStore counts look-ups.
type countingStore struct {
	results.Store
	asked atomic.Int64
}

func (s *countingStore) Lookup(ctx context.Context, id int64) (results.Page, error) {
	s.asked.Add(1)
	return s.Store.Lookup(ctx, id)
}

// replacedStore gets a data set that is not out while it looks a page up.
type replacedStore struct {
	results.Store
	p *told
}

func (s replacedStore) Lookup(ctx context.Context, id int64) (results.Page, error) {
	s.p.say(inAnHour())
	return s.Store.Lookup(ctx, id)
}

func TestDataSetIsReplacedByOneThatIsNotOut(t *testing.T) {
	t.Parallel()
	for _, id := range []int64{knownID, 5} {
		var p told
		p.say(out())
		api := newAPIWith(t, httpapi.Config{Access: httpapi.Code, Store: replacedStore{students, &p}, Publication: p.publication})
		if got := api.Decide(from("203.0.113.7"), id, []byte(code)); got.Err != results.ErrEmbargoed || got.Page.Body != nil {
			t.Errorf("id %d: got %v and %d bytes, want nothing of it", id, got.Err, len(got.Page.Body))
		}
	}
}
