package reconcile

import (
	"context"
	"database/sql"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"loadstone/system/patterns/event/eventlog"
	"loadstone/system/patterns/serve"
)

// pair starts a log service and a service that calls it.
func pair(t *testing.T) (app, log, file string) {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	file = filepath.Join(t.TempDir(), "events.db")
	log = served(t, func(ctx context.Context, listening func(api, admin net.Addr)) error {
		cfg := eventlog.DefaultConfig()
		cfg.Listen, cfg.AdminListen, cfg.Store = anyAdmin, anyAdmin, file
		cfg.Listening = listening
		return eventlog.Run(ctx, cfg, quiet)
	})
	app = served(t, func(ctx context.Context, listening func(api, admin net.Addr)) error {
		cfg := serve.DefaultConfig()
		cfg.Listen, cfg.AdminListen, cfg.Events = anyAdmin, anyAdmin, "http://"+log
		cfg.Listening = listening
		return serve.Run(ctx, cfg, quiet)
	})
	return app, log, file
}

// lose deletes the first n events that were found from their store, as one does that has
// lost what it had said was stored.
func (r *reconciler) lose(t *testing.T, file string, n int) {
	t.Helper()
	db, err := sql.Open("sqlite", file+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	r.mu.Lock()
	gone := slices.Clone(r.found[:n])
	r.mu.Unlock()
	for _, o := range gone {
		if _, err := db.ExecContext(t.Context(), "DELETE FROM events WHERE id = ?", o.id); err != nil {
			t.Fatal(err)
		}
	}
}

// An event that was found once, and is lost before the end, is missing.
func TestAnEventThatIsLostLaterIsMissing(t *testing.T) {
	t.Parallel()
	app, log, file := pair(t)
	r := reconcileAll(t, app, log, time.Minute)
	r.stores(100)
	r.lose(t, file, 60)
	r.accepts(20)
	if got := r.end(); got.Balanced() || got.Missing != 60 || got.Stored != got.Accepted-60 {
		t.Errorf("got %s, want the 60 missing that were deleted", got)
	}
}

// Who stays goes on asking, and finds what is lost after all was found.
func TestWhoStaysFindsALaterLoss(t *testing.T) {
	t.Parallel()
	app, log, file := pair(t)
	cfg := DefaultConfig()
	cfg.App, cfg.Log, cfg.For, cfg.Stay = app, log, 2*time.Second, true
	r := newReconciler(cfg)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.run(ctx) }()
	t.Cleanup(func() { stop(); <-done; r.app.CloseIdleConnections(); r.log.CloseIdleConnections() })
	reach := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("not %s within two minutes: %s", what, r.now())
			}
		}
	}
	reach("balanced", r.balanced)
	r.lose(t, file, 1) // there is one, or it would not be balanced
	reach("unbalanced", func() bool { return !r.balanced() && r.now().Missing == 1 })
}

// Nothing is balanced that has not happened.
func TestNothingAcceptedIsNotBalanced(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.App, cfg.Log, cfg.For, cfg.AdminListen = "127.0.0.1:1", "127.0.0.1:2", 10*time.Second, anyAdmin
	got, err := Run(t.Context(), cfg)
	if err != nil || got.Balanced() || got.Repeated == 0 || !strings.Contains(got.String(), "accepted none") {
		t.Errorf("got %s and %v, want it not balanced, since nobody accepts anything", got, err)
	}
}

// A log service that does not answer at the end has stored nothing that is known.
func TestAnAuditWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.App, cfg.Log, cfg.Settle = "127.0.0.1:1", "127.0.0.1:2", 300*time.Millisecond
	r := newReconciler(cfg)
	r.found, r.count = []open{{id: "a"}, {id: "b"}}, Count{Accepted: 2, Stored: 2}
	r.audit()
	if got := r.now(); got.Balanced() || got.Stored != 0 || got.Missing != 2 {
		t.Errorf("got %s, want both missing", got)
	}
}

func TestTooManyEvents(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.App, cfg.Log, cfg.Rate, cfg.For = "a:1", "b:1", 10_000, time.Hour
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "at most 2000000") {
		t.Errorf("got %v, want so many refused", err)
	}
}
