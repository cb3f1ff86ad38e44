package pgstore

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"loadstone/block/postgres"
	"loadstone/block/servertest"
	"loadstone/system/patterns/activity"
	"loadstone/system/patterns/activity/activitytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func config(url string) Config {
	cfg := DefaultConfig()
	cfg.URL, cfg.Registerer = url, prometheus.NewRegistry()
	return cfg
}

func opened(t *testing.T, cfg Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// One server for all: it takes seconds to start. It syncs, because one of the tests kills it.
func TestPostgres(t *testing.T) {
	server := servertest.Postgres(t, "fsync=on", "full_page_writes=on")
	url := server.URL("postgres")
	// First, when there is no table: several services that start at one time.
	t.Run("the table is made once", func(t *testing.T) {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				cfg := config(url)
				cfg.Connections = 2
				s, err := Open(t.Context(), cfg)
				if err != nil {
					t.Error(err)
					return
				}
				_ = s.Close()
			})
		}
		all.Wait()
	})
	t.Run("is a store", func(t *testing.T) {
		activitytest.Suite(t, func(t *testing.T) activity.Store { t.Helper(); return opened(t, config(url)) })
	})
	t.Run("says how durable it is", func(t *testing.T) { durability(t, url) })
	t.Run("who finds no connection is busy", func(t *testing.T) { busy(t, url) })
	t.Run("outlives its database", func(t *testing.T) { outlives(t, server, url) })
}

func durability(t *testing.T, url string) {
	s := opened(t, config(url+"&synchronous_commit=off")) // what an address says does not count
	if d := s.Durability(); !d.Synced || d.How != "PostgreSQL: fsync=on, synchronous_commit=on" {
		t.Errorf("got %+v", d)
	}
	var commit string
	if err := s.pool.With(t.Context(), func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, "SELECT current_setting('synchronous_commit')").Scan(&commit)
	}); err != nil || commit != "on" {
		t.Errorf("a connection of the pool has synchronous_commit=%s, %v", commit, err)
	}
}

func busy(t *testing.T, url string) {
	cfg := config(url)
	cfg.Connections, cfg.Waiting = 1, 1
	cfg.AcquireTimeout = 2 * time.Second
	cfg.StatementTimeout, cfg.QueryTimeout = 20*time.Second, 21*time.Second
	s := opened(t, cfg)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE activities"); err != nil {
		t.Fatal(err)
	}
	held, a := make(chan error, 1), activitytest.Example("held")
	go func() { held <- s.Put(context.Background(), &a) }() // it has the only connection
	deadline := time.Now().Add(2 * time.Minute)
	for s.pool.Stat().AcquiredConns() == 0 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	waits := make(chan error, 1)
	go func() { // it waits, until it is told to come back
		_, err := s.Get(context.Background(), "x")
		waits <- err
	}()
	for s.pool.Waiting() < 1 && len(waits) == 0 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	if _, err := s.Get(t.Context(), "x"); !errors.Is(err, activity.ErrBusy) {
		t.Errorf("the third: got %v, want ErrBusy at once", err)
	}
	if err := <-waits; !errors.Is(err, activity.ErrBusy) {
		t.Errorf("who waited: got %v, want ErrBusy", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-held; err != nil {
		t.Errorf("who had the connection: got %v", err)
	}
}

func outlives(t *testing.T, server *servertest.PostgresServer, url string) {
	s := opened(t, config(url))
	a := activitytest.Example("acknowledged")
	activitytest.Put(t, s, a)
	server.Kill()
	if _, err := s.Get(t.Context(), a.ID); !errors.Is(err, activity.ErrUnavailable) {
		t.Errorf("its database killed: got %v, want ErrUnavailable", err)
	}
	if err := s.Put(t.Context(), &a); !errors.Is(err, activity.ErrUnavailable) {
		t.Errorf("its database killed: got %v, want ErrUnavailable", err)
	}
	server.Start()
	deadline := time.Now().Add(2 * time.Minute)
	for time.Now().Before(deadline) {
		if _, err := s.Get(t.Context(), a.ID); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	activitytest.Want(t, s, a)
}

func TestADatabaseThatDoesNotSyncIsSaid(t *testing.T) {
	url := servertest.Postgres(t, "fsync=off").URL("postgres")
	if d := opened(t, config(url)).Durability(); d.Synced || !strings.Contains(d.How, "fsync=off") {
		t.Errorf("got %+v, want that it is not synced", d)
	}
}

func TestABadConfigurationIsRefused(t *testing.T) {
	t.Parallel()
	_, err := Open(t.Context(), Config{Config: postgres.Config{URL: "mysql://root:secret@db/x"}})
	for _, want := range []string{"postgres://USER@HOST", "connections is 0", "statement timeout is 0s"} {
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v, want %q and no password", err, want)
		}
	}
	if err := postgres.CheckURL("postgres://u:secret@db/x?pool_max_conns=many"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v, want an error without the password", err)
	}
	cfg := config("postgres://nobody@127.0.0.1:1/x")
	if _, err := Open(t.Context(), cfg); !errors.Is(err, activity.ErrUnavailable) {
		t.Errorf("nobody there: got %v, want ErrUnavailable", err)
	}
}
