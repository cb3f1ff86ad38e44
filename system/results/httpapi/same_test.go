package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"loadstone/system/results"
	"loadstone/system/results/httpapi/guard"
)

// state is how the store's look-ups fare: of an id that exists, and of one that does not,
// which no cache has.
type state struct {
	name           string
	known, unknown func() (time.Duration, error)
	status         int // of every refusal
}

func always(took time.Duration, err error) func() (time.Duration, error) {
	return func() (time.Duration, error) { return took, err }
}

func inTurn(outcomes ...func() (time.Duration, error)) func() (time.Duration, error) {
	var n atomic.Int64
	return func() (time.Duration, error) { return outcomes[n.Add(1)%int64(len(outcomes))]() }
}

var (
	errBroken = errors.New("broken")
	states    = []state{
		{"cold caches, the database is up", always(2*time.Millisecond, nil), always(time.Millisecond, results.ErrNotFound), 404},
		{"in memory, the database is up", always(0, nil), always(2*time.Millisecond, results.ErrNotFound), 404},
		{"in Redis, the database is slow", always(time.Millisecond, nil), always(40*time.Millisecond, results.ErrNotFound), 404},
		{"in memory, look-ups queue", always(0, nil), always(700*time.Millisecond, results.ErrNotFound), 404},
		{"in memory, look-ups vary", always(0, nil), inTurn(always(3*time.Millisecond, results.ErrNotFound), always(90*time.Millisecond, results.ErrNotFound)), 404},
		{"in memory, some are refused", always(0, nil), inTurn(
			always(900*time.Millisecond, results.ErrNotFound), always(2*time.Second, &results.BusyError{RetryAfter: 2 * time.Second}), always(0, &results.BusyError{RetryAfter: 2 * time.Second}),
		), 503},
		{"in Redis, the database refuses connections", always(time.Millisecond, nil), always(300*time.Microsecond, errBroken), 503},
		{"in memory, the database is silent", always(0, nil), always(3*time.Second, errBroken), 503},
		{"in memory, Redis is slow and the database is away", always(0, nil), always(51*time.Millisecond, errBroken), 503},
		{"known and unknown ids are refused", always(0, &results.BusyError{RetryAfter: 2 * time.Second}), always(2*time.Second, &results.BusyError{RetryAfter: 2 * time.Second}), 503},
		// A stale page waits for the database for 100 ms at most, see package pagecache.
		{"stale in memory, the database is silent", always(100*time.Millisecond, nil), always(3*time.Second, errBroken), 503},
	}
)

// stateStore is a store in a state.
type stateStore struct{ state *state }

const existing = 77

var date = regexp.MustCompile(`Date: [^\r]*\r\n`)

func (s stateStore) Lookup(ctx context.Context, id int64) (results.Page, error) {
	fares := s.state.unknown
	if id == existing {
		fares = s.state.known
	}
	took, err := fares()
	select {
	case <-time.After(took):
	case <-ctx.Done():
		return results.Page{}, ctx.Err()
	}
	if err != nil {
		return results.Page{}, err
	}
	return results.Page{Body: []byte(`{}`), Code: []byte("7QX4M2KD90AZ"), Tag: 1}, nil
}

func (stateStore) Close() error { return nil }

// inState runs a service with its pulse in a bubble in which nothing takes time but the
// store. ask returns the whole answer to a code for an id from an address, and after
// which time it came.
func inState(t *testing.T, s *state, test func(api *API, ask func(id int64, code, from string) (string, time.Duration))) {
	t.Helper()
	_ = (&fasthttp.Response{}).String() // starts fasthttp's clock, outside of the bubble
	synctest.Test(t, func(t *testing.T) {
		limits := guard.DefaultConfig()
		api, err := New(Config{
			Store: stateStore{s}, Access: Code, Ready: func() bool { return true }, Limits: &limits, NotFoundAfter: 25 * time.Millisecond,
			Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
			Publication: func() results.Publication { return results.Publication{Out: true} },
		})
		if err != nil {
			t.Fatal(err)
		}
		api.refusals.sleepUntil = func(at time.Time) { time.Sleep(time.Until(at)) }
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- api.Run(ctx) }()
		time.Sleep(20*time.Second + 123*time.Millisecond)
		test(api, func(id int64, code, from string) (string, time.Duration) {
			var ctx fasthttp.RequestCtx
			var req fasthttp.Request
			req.SetRequestURI(fmt.Sprintf("/student/%d", id))
			req.Header.Set("X-Access-Code", code)
			ctx.Init(&req, &net.TCPAddr{IP: net.ParseIP(from), Port: 4711}, nil)
			began := time.Now()
			api.Handle(&ctx)
			after := time.Since(began)
			return date.ReplaceAllString(ctx.Response.String(), ""), after
		})
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// In every state a wrong code and an unknown id are answered with the same bytes after the
// same time, to the nanosecond, up to the lock-out and in it, whoever asks first; and
// the right code opens as soon as its look-up is done.
func TestSameAnswerSameTime(t *testing.T) {
	t.Parallel()
	for i := range states {
		s := states[i]
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			inState(t, &s, func(_ *API, ask func(id int64, code, from string) (string, time.Duration)) {
				for try := range 40 {
					var known, unknown string
					var a, b time.Duration
					var asking sync.WaitGroup
					asking.Go(func() { known, a = ask(existing, "WRONG-WRONG", "192.0.2.1") })
					asking.Go(func() { unknown, b = ask(5, "WRONG-WRONG", "192.0.2.1") })
					asking.Wait()
					if known != unknown || a != b {
						t.Errorf("try %d: a wrong code after %v:\n%s\nan unknown id after %v:\n%s", try+1, a, known, b, unknown)
					}
					if try == 0 && (!strings.Contains(known, fmt.Sprint(" ", s.status, " ")) || a < 25*time.Millisecond) {
						t.Errorf("got after %v:\n%s\nwant status %d after 25ms at least", a, known, s.status)
					}
					if locked := strings.Contains(known, " 429 "); locked && try < 5 || !locked && try == 39 {
						t.Errorf("try %d: got %s", try+1, known)
					}
				}
				took, err := s.known()
				page, after := ask(existing, "7qx4-m2kd-90az", "192.0.2.2")
				if err == nil && (!strings.Contains(page, " 200 ") || after != took) {
					t.Errorf("the right code: got after %v:\n%s\nwant the page after %v", after, page, took)
				}
			})
		})
	}
}

// When too many wait, the next ones are refused soon and alike, and the right code opens
// if its page is found by then.
func TestCrowdIsRefusedAlike(t *testing.T) {
	t.Parallel()
	s := state{"", always(0, nil), always(2*time.Second, results.ErrNotFound), 404}
	inState(t, &s, func(api *API, ask func(id int64, code, from string) (string, time.Duration)) {
		var crowd sync.WaitGroup
		for i := range int64(maxWaiting) {
			crowd.Go(func() { ask(1000+i, "WRONG-WRONG", fmt.Sprintf("10.0.%d.%d", i/256, i%256)) })
		}
		time.Sleep(2100 * time.Millisecond)
		if got := api.refusals.waiting.Load(); got != maxWaiting {
			t.Errorf("got %d waiting, want %d", got, maxWaiting)
		}
		known, a := ask(existing, "WRONG-WRONG", "192.0.2.1")
		unknown, b := ask(5, "WRONG-WRONG", "192.0.2.1")
		if known != unknown || a != 25*time.Millisecond || b != a || !strings.Contains(known, " 503 ") {
			t.Errorf("a wrong code after %v:\n%s\nan unknown id after %v:\n%s\nwant 503 for both after 25ms", a, known, b, unknown)
		}
		if page, after := ask(existing, "7QX4M2KD90AZ", "192.0.2.1"); after != 0 || !strings.Contains(page, " 200 ") {
			t.Errorf("the right code after %v:\n%s", after, page)
		}
		crowd.Wait()
		if got, after := ask(existing, "WRONG-WRONG", "192.0.2.1"); after <= 2*time.Second || !strings.Contains(got, " 404 ") {
			t.Errorf("after the crowd: got after %v:\n%s", after, got)
		}
	})
}

// The delay follows the slowest look-up up and down again, and the one under way.
func TestDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := refusals{least: 25 * time.Millisecond}
		check := func(want time.Duration) {
			t.Helper()
			if got := r.delay(time.Now()); got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		}
		check(25 * time.Millisecond)
		for _, c := range []struct{ took, want int }{{25, 25}, {26, 50}, {10, 50}, {300, 400}, {1700, 3200}, {9000, 4800}} {
			r.looked(time.Now(), time.Duration(c.took)*time.Millisecond, nil)
			check(time.Duration(c.want) * time.Millisecond)
		}
		time.Sleep(memory)
		r.looked(time.Now(), time.Millisecond, nil)
		check(4800 * time.Millisecond)
		time.Sleep(memory)
		r.looked(time.Now(), time.Millisecond, nil)
		check(25 * time.Millisecond)
		r.looked(time.Now(), 90*time.Millisecond, nil)
		time.Sleep(2 * memory)
		r.looked(time.Now(), time.Millisecond, nil)
		check(25 * time.Millisecond)
		r.pulsing.Store(time.Now().UnixNano())
		time.Sleep(60 * time.Millisecond)
		check(100 * time.Millisecond)
		none := refusals{}
		none.looked(time.Now(), time.Second, nil)
		if got := none.delay(time.Now()); got != 0 {
			t.Errorf("without a delay: got %v", got)
		}
	})
}
