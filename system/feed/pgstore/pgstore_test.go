package pgstore

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"loadstone/block/servertest"
	"loadstone/system/feed"
	"loadstone/system/feed/feedtest"
)

func TestMain(m *testing.M) {
	if feedtest.IsWriter() {
		os.Exit(feedtest.Writer(func(address string) (feed.Store, error) { return keep(Open(context.Background(), config(address))) }))
	}
	os.Exit(servertest.Main(m.Run))
}

func keep(s *Store, err error) (feed.Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// config is for a server that many tests share, on a machine that does other things.
func config(address string) Config {
	cfg := DefaultConfig()
	cfg.URL, cfg.Connections = address, 4
	cfg.AcquireTimeout, cfg.StatementTimeout, cfg.QueryTimeout = time.Minute, time.Minute, 2*time.Minute
	return cfg
}

func at(t *testing.T, address string) feedtest.Open {
	t.Helper()
	return func() (feed.Store, error) { return keep(Open(t.Context(), config(address))) }
}

func places() feedtest.Places {
	return feedtest.Places{Large: os.Getenv("LARGE") == "1", Make: func(t *testing.T) feedtest.Open {
		t.Helper()
		return at(t, servertest.Database(t))
	}}
}

func TestStore(t *testing.T) {
	t.Parallel()
	feedtest.Stores(t, places())
}

func TestDesk(t *testing.T) {
	t.Parallel()
	feedtest.Desks(t, places())
}

func TestKilledEditor(t *testing.T) {
	t.Parallel()
	address := servertest.Database(t)
	feedtest.Kill(t, address, at(t, address))
}

// A store outlives its database, and says so meanwhile, without its address.
func TestOutage(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t)
	s, err := Open(t.Context(), config(server.Database(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Fill(t.Context(), feedtest.Generator(t, 1, 3), nil); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	if _, err := s.Page(t.Context(), feed.Start, 1); !errors.Is(err, feed.ErrUnavailable) {
		t.Errorf("the database is away: got %v, want ErrUnavailable", err)
	}
	if _, err := Open(t.Context(), config("postgres://u:s3cret@127.0.0.1:1/none")); !errors.Is(err, feed.ErrUnavailable) || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("nobody there: got %v, want ErrUnavailable without the password", err)
	}
	server.Start()
	for began := time.Now(); ; { // connections that broke are found out one by one
		page, err := s.Page(t.Context(), feed.Start, 1)
		if err == nil && len(page) == 1 {
			break
		}
		if !errors.Is(err, feed.ErrUnavailable) || time.Since(began) > time.Minute {
			t.Fatalf("it is back: got %v and %v", page, err)
		}
	}
}
