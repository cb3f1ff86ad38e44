package reconcile

import (
	"context"
	"database/sql"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"loadstone/block/servertest"
	"loadstone/system/patterns/event/eventlog"
	"loadstone/system/patterns/serve"
)

// reconciliation is one that goes on beside what a test does.
type reconciliation struct {
	*reconciler

	t    *testing.T
	stop context.CancelFunc
	done chan struct{}
}

// reconcileAll sends 200 events a second until it is told to end. An accepted event
// may take so long to be stored.
func reconcileAll(t *testing.T, app, log string, settle time.Duration) *reconciliation {
	t.Helper()
	cfg := DefaultConfig()
	cfg.App, cfg.Log, cfg.For, cfg.Settle = app, log, 25*time.Minute, settle
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &reconciliation{reconciler: newReconciler(cfg), t: t, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.run(ctx)
	}()
	t.Cleanup(func() { r.end() })
	return r
}

// end stops sending and returns the count when it is final.
func (r *reconciliation) end() Count {
	r.stop()
	<-r.done
	r.app.CloseIdleConnections()
	r.log.CloseIdleConnections()
	return r.now()
}

// accepts waits until n more events were accepted.
func (r *reconciliation) accepts(n int64) {
	r.t.Helper()
	r.reach("accepted", n, func(c Count) int64 { return c.Accepted })
}

// stores waits until n more events were found.
func (r *reconciliation) stores(n int64) {
	r.t.Helper()
	r.reach("stored", n, func(c Count) int64 { return c.Stored })
}

func (r *reconciliation) reach(what string, more int64, count func(Count) int64) {
	r.t.Helper()
	const limit = 5 * time.Minute // the return of a killed broker, beside other tests
	first := count(r.now())
	for deadline := time.Now().Add(limit); count(r.now()) < first+more; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("not within %v: %d more events are %s; it stands at %s", limit, more, what, r.now())
		}
	}
}

// What is accepted is stored, whichever of broker, log service and service is killed
// while events come: here with a real Kafka. That this can fail is what the second
// test shows, on the same broker.
func TestKafka(t *testing.T) {
	began := time.Now()
	broker, at := servertest.Kafka(t), servertest.Host()
	t.Logf("the broker was ready after %v", time.Since(began).Round(time.Second/10))
	app, log, events := at+":8080", at+":8081", "kafka://"+broker.Addr+"?capacity=5000"

	t.Run("three kills lose nothing", func(t *testing.T) {
		parts := map[string]*servertest.Process{
			"broker": broker.Process,
			"log":    part(t, log, "log", log, filepath.Join(t.TempDir(), "events.db"), events),
			"app":    part(t, app, "app", app, events),
		}
		parts["log"].Start()
		parts["app"].Start()
		r := reconcileAll(t, app, log, 10*time.Minute) // only what is lost takes as long
		for _, name := range []string{"broker", "log", "app"} {
			r.accepts(200)
			began := time.Now()
			parts[name].Kill()
			parts[name].Start()
			r.accepts(200)
			r.stores(1) // what comes after the kill is read again
			t.Logf("%s killed: events were accepted and stored again within %v", name, time.Since(began).Round(time.Second/10))
		}
		got := r.end()
		parts["log"].Stop()
		t.Log(got)
		if !got.Balanced() || got.Missing != 0 || got.Accepted < 1200 || got.Repeated == 0 {
			t.Errorf("got %s, want 1200 or more, none missing, and some that were sent again", got)
		}
	})
	t.Run("who acknowledges before he stores is found out", func(t *testing.T) {
		service := part(t, app, "app", app, events)
		honest := part(t, log, "log", log, filepath.Join(t.TempDir(), "events.db"), events)
		hasty := startAcknowledging(t, events)
		service.Start()
		r := reconcileAll(t, app, log, 10*time.Second)
		acknowledged := 0
		for acknowledged < 100 {
			acknowledged = hasty.number()
		}
		hasty.Kill()
		honest.Start() // it gets all that was not acknowledged
		r.stores(1)
		got := r.end()
		t.Log(got, "acknowledged before the kill:", acknowledged)
		if got.Balanced() || got.Missing < int64(acknowledged) || got.Stored == 0 {
			t.Errorf("got %s, want at least the %d missing that were acknowledged, and the rest stored", got, acknowledged)
		}
	})
}

// served starts a service in this process and returns its address.
func served(t *testing.T, run func(ctx context.Context, listening func(api, admin net.Addr)) error) string {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	address, done := make(chan string, 1), make(chan error, 1)
	go func() { done <- run(ctx, func(api, _ net.Addr) { address <- api.String() }) }()
	t.Cleanup(stop)
	select {
	case at := <-address:
		t.Cleanup(func() {
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
		return at
	case err := <-done:
		t.Fatal(err)
		return ""
	}
}

// A store that loses a row of ten after it has said that it is stored is noticed, and
// one that loses none is not blamed.
func TestAnEventDeletedFromTheLogIsMissing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		trigger string
		settle  time.Duration
		lost    bool
	}{
		"one of ten is deleted": {"CREATE TRIGGER lose AFTER INSERT ON events WHEN NEW.place % 10 = 0 BEGIN DELETE FROM events WHERE place = NEW.place; END", 500 * time.Millisecond, true},
		"nothing is deleted":    {"SELECT 1", time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			quiet := slog.New(slog.DiscardHandler)
			file := filepath.Join(t.TempDir(), "events.db")
			log := served(t, func(ctx context.Context, listening func(api, admin net.Addr)) error {
				cfg := eventlog.DefaultConfig()
				cfg.Listen, cfg.AdminListen, cfg.Store = anyAdmin, anyAdmin, file
				cfg.Listening = listening
				return eventlog.Run(ctx, cfg, quiet)
			})
			app := served(t, func(ctx context.Context, listening func(api, admin net.Addr)) error {
				cfg := serve.DefaultConfig()
				cfg.Listen, cfg.AdminListen, cfg.Events = anyAdmin, anyAdmin, "http://"+log
				cfg.Listening = listening
				return serve.Run(ctx, cfg, quiet)
			})
			db, err := sql.Open("sqlite", file)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			if _, err := db.ExecContext(t.Context(), c.trigger); err != nil {
				t.Fatal(err)
			}
			r := reconcileAll(t, app, log, c.settle)
			r.accepts(100)
			got := r.end()
			if lost := got.Missing > 0 && !got.Balanced(); lost != c.lost || got.Stored == 0 || got.Stored+got.Missing != got.Accepted {
				t.Errorf("got %s, want a loss: %v", got, c.lost)
			}
		})
	}
}
