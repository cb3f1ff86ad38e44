package pgstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/dataset"
	"loadstone/block/servertest"
	"loadstone/system/menu"
	"loadstone/system/menu/menutest"
)

func open(t *testing.T, cfg Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// A database that is killed takes no acknowledged write with it, and the store finds it
// again by itself. A filling that is cut off by it is unavailable, and goes on later.
func TestDatabaseIsKilledAndComesBack(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "fsync=on")
	cfg := config(server.Database(t))
	cfg.Connections = 1 // so that one failure ends all connections of before
	s := open(t, cfg)
	whole := menutest.Generator(t, 1, 4*chunkMenus)
	progressed := make(chan struct{}, 4*chunkMenus)
	cut := menutest.Source{Of: whole.Meta(), Menus: func(ctx context.Context, yield func(menu.Menu, error) bool) {
		killed := false
		for m := range whole.All(ctx) {
			if !killed && m.ID > 3*chunkMenus {
				select {
				case <-progressed:
				case <-ctx.Done():
					return
				}
				server.Kill()
				killed = true
			}
			if !yield(m, nil) {
				return
			}
		}
	}}
	if _, err := s.Fill(t.Context(), cut, func(int64, int64) { progressed <- struct{}{} }); !errors.Is(err, menu.ErrUnavailable) {
		t.Errorf("a filling whose database is killed: got %v", err)
	}
	server.Start()
	again := func(do func() error) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			switch err := do(); {
			case err == nil:
				return
			case !errors.Is(err, menu.ErrUnavailable) || time.Now().After(deadline):
				t.Fatal(err)
			}
		}
	}
	if filled, err := s.Fill(t.Context(), whole, nil); err != nil || filled.Resumed == 0 {
		t.Fatalf("got %+v and %v", filled, err)
	}
	// The connection of before may be used once more, and ends as unavailable.
	m := menutest.Example(9, 1)
	again(func() error { _, _, err := s.Replace(t.Context(), &m, menu.Condition{}); return err })
	menutest.Want(t, s, &m, 2)
	server.Kill()
	_, err := s.Lookup(t.Context(), 9)
	_, deleted := s.Delete(t.Context(), 9, menu.Condition{})
	for _, err := range []error{err, deleted, s.Ping(t.Context())} {
		if !errors.Is(err, menu.ErrUnavailable) {
			t.Errorf("got %v, want ErrUnavailable", err)
		}
	}
	server.Start()
	again(func() error { _, err := s.Lookup(t.Context(), 9); return err })
	menutest.Want(t, s, &m, 2)
	m = whole.Menu(10)
	menutest.Want(t, s, &m, 1)
}

func TestErrorsKeepSecrets(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{
		"postgres://menus:hunter2@" + address + "/menus?sslmode=disable",
		"postgres://menus:hunter2@" + address + "/menus?sslmode=perhaps",
		"postgres://menus:hunter2@%zz/menus", "menus:hunter2@localhost",
	} {
		_, err := Open(t.Context(), config(address))
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("got %v", err)
		}
		if strings.Contains(address, "disable") && !errors.Is(err, menu.ErrUnavailable) {
			t.Errorf("nobody there: got %v, want ErrUnavailable", err)
		}
	}
}

// When all connections are in use, those who wait are bounded in number and time, and
// nobody waits for an answer for ever.
func TestTooManyAreOverloaded(t *testing.T) {
	t.Parallel()
	cfg := config(servertest.Database(t))
	cfg.Connections, cfg.Waiting, cfg.AcquireTimeout = 1, 1, 3*time.Second
	registry := prometheus.NewRegistry()
	cfg.Registerer = registry
	s := open(t, cfg)
	err := s.pool.With(t.Context(), func(ctx context.Context, _ *pgxpool.Conn) error {
		families, err := registry.Gather()
		if err != nil {
			return err
		}
		for _, f := range families {
			if f.GetName() == "menu_database_connections_in_use" && f.GetMetric()[0].GetGauge().GetValue() != 1 || len(families) != 4 {
				t.Errorf("got %v while the one connection is in use", families)
			}
		}
		_, err = s.Lookup(ctx, 1)
		return err
	})
	if !errors.Is(err, menu.ErrOverloaded) {
		t.Errorf("got %v, want ErrOverloaded", err)
	}
}

// What is wrong with a data set is not said of the database, and leaves no store.
func TestSourcesThatAreRefused(t *testing.T) {
	t.Parallel()
	twice := []menu.Menu{menutest.Example(1, 1), menutest.Example(2, 1), menutest.Example(1, 2)}
	s := open(t, config(servertest.Database(t)))
	source := fixed(twice)
	_, err := s.Fill(t.Context(), source, nil)
	if err == nil || errors.Is(err, menu.ErrUnavailable) || !strings.Contains(err.Error(), "an id twice") {
		t.Errorf("an id twice: got %v", err)
	}
	if _, err := s.Lookup(t.Context(), 1); !errors.Is(err, menu.ErrMissing) {
		t.Errorf("got %v, want ErrMissing", err)
	}
	reversed := slices.Clone(twice)
	slices.Reverse(reversed)
	other := fixed(reversed)
	other.Of = source.Of
	reversed[0] = menutest.Example(5, 5)
	if _, err := s.Fill(t.Context(), other, nil); !errors.Is(err, dataset.ErrOrder) || errors.Is(err, menu.ErrUnavailable) {
		t.Errorf("another order: got %v", err)
	}
	written := open(t, config(servertest.Database(t)))
	m := menutest.Example(1, 1)
	if _, err := written.Create(t.Context(), &m); err != nil {
		t.Fatal(err)
	}
	if _, err := written.Fill(t.Context(), menutest.Generator(t, 1, 9), nil); !errors.Is(err, menu.ErrOccupied) {
		t.Errorf("fill what has menus: got %v, want ErrOccupied", err)
	}
	menutest.Want(t, written, &m, 1)
}

func fixed(menus []menu.Menu) menutest.Source {
	return menutest.Source{
		Of: dataset.Meta{Origin: "a list", Fingerprint: fmt.Sprint(len(menus)), Count: int64(len(menus))},
		Menus: func(_ context.Context, yield func(menu.Menu, error) bool) {
			for _, m := range menus {
				if !yield(m, nil) {
					return
				}
			}
		},
	}
}
