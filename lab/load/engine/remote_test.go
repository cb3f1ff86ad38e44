package engine

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/loadtest"
)

// Over TLS and HTTP/2 a goroutine sends what the event loop has to be sent. For as long as it
// does not come to that, the request is with the generator: that is in its response time, and
// counts as lateness, and is no service time.
func TestWhatTheGeneratorDelaysIsNoServiceTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		start func(*httptest.Server)
		plan  func(*load.Plan)
	}{
		"https":          {(*httptest.Server).StartTLS, func(*load.Plan) {}},
		"h2":             {func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() }, func(p *load.Plan) { p.Protocol = load.HTTP2 }},
		"h2c":            {startPlainHTTP2, func(p *load.Plan) { p.Protocol = load.HTTP2 }},
		"h2c, to share":  {startPlainHTTP2, func(p *load.Plan) { p.Protocol, p.Connections = load.HTTP2, 1 }},
		"not yet opened": {(*httptest.Server).StartTLS, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var arrived atomic.Pointer[time.Time]
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				now := time.Now()
				arrived.Store(&now)
				w.WriteHeader(http.StatusNoContent)
			}))
			c.start(server)
			defer server.Close()
			plan := loadtest.OpenPlan(server.URL, 1, 10*time.Second, 1)
			plan.TLS.InsecureSkipVerify, plan.Timeout = true, 20*time.Second
			if c.plan != nil {
				c.plan(&plan)
			}
			r, err := newRun(t.Context(), &plan, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := r.closeLoops(); err != nil {
					t.Error(err)
				}
			}()
			u := r.executors[0].(*scenario).open[0].users[0]
			l := u.loop
			over, ok := u.link.(*remote)
			if !ok {
				t.Fatalf("the link is a %T", u.link)
			}
			ctx, cancel := context.WithTimeout(t.Context(), plan.Timeout)
			defer cancel()
			if c.plan != nil { // the connection is there
				conn, err := over.conn.acquire(ctx)
				if err != nil {
					t.Fatal(err)
				}
				over.conn.release(conn)
			}
			over.tasks = make(chan task, 1) // which nobody takes from yet
			intended := l.clock.now()
			u.begin(load.Arrival{At: intended}, true, false)
			const delay = 50 * time.Millisecond
			time.Sleep(delay) // the generator is busy with something else
			held := l.clock.now()
			l.remotes.Go(func() { over.serve(over.tasks) })
			for !l.hasPost.Load() {
				if ctx.Err() != nil {
					t.Fatal("no answer came")
				}
				time.Sleep(time.Millisecond)
			}
			l.runPosted()
			if at := l.clock.wall(u.sent); u.sent < held || at.After(*arrived.Load()) {
				t.Errorf("sent %v after it was intended, want after %v, when the generator came to it, and before it arrived, %v later", u.sent-intended, held-intended, arrived.Load().Sub(at))
			}
			r.recorder.rotate()
			got := &r.recorder.total.measured
			if response, service := got.steps[0].response.Min(), got.steps[0].service.Max(); response < delay.Microseconds() || service > (u.done-held).Microseconds()+service/500 || got.late != 1 {
				t.Errorf("got a response time of %d µs, a service time of %d µs and %d late, want %v at least, %v at most and one", response, service, got.late, delay, u.done-held)
			}
		})
	}
}
