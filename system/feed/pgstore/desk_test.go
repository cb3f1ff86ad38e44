package pgstore

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"loadstone/block/postgres"
	"loadstone/block/servertest"
	"loadstone/system/feed"
	"loadstone/system/feed/feedtest"
)

// While others are under way, of another post or filling the store, a change waits: numbers commit in their order, and
// nobody who has read up to one misses those below.
func TestChangesTakeTurns(t *testing.T) {
	t.Parallel()
	address := servertest.Database(t)
	s, err := Open(t.Context(), config(address))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Fill(t.Context(), feedtest.Generator(t, 1, 3), nil); err != nil {
		t.Fatal(err)
	}
	down := feed.Change{Action: feed.TakenDown, Editor: "ada", Post: 1}
	for what, first := range map[string]func(tx pgx.Tx) error{
		"a change": func(tx pgx.Tx) error {
			_, err := feed.Tx{Rows: queriesOf(tx), Posts: list}.Apply(t.Context(), down, nil, feed.Condition{})
			return err
		},
		"a filling": func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock($1)", int64(fillLock))
			return err
		},
	} {
		conn, err := postgres.Connect(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		tx, err := conn.Begin(t.Context())
		if err == nil {
			err = first(tx)
		}
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := s.Apply(t.Context(), feed.Change{Action: feed.TakenDown, Editor: "bob", Post: 2}, nil, feed.Condition{})
			ended <- err
		}()
		waits := false
		for deadline := time.Now().Add(time.Minute); !waits && len(ended) == 0 && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			err := tx.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`).Scan(&waits)
			if err != nil {
				t.Fatal(err)
			}
		}
		if !waits {
			t.Errorf("a change did not wait for %s", what)
		}
		if err := errors.Join(tx.Rollback(t.Context()), conn.Close(t.Context())); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if _, err := s.Apply(t.Context(), feed.Change{Action: feed.PutBack, Editor: "bob", Post: 2}, nil, feed.Condition{}); err != nil {
			t.Error(err)
		}
	}
}
