package stores

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"loadstone/system/patterns/activity"
	"loadstone/system/patterns/activity/activitytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOpensWhatTheAddressNames(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"sqlite:" + filepath.Join(t.TempDir(), "a.db"): "SQLite",
		"pebble:" + filepath.Join(t.TempDir(), "a"):    "pebble",
	} {
		store, err := Open(t.Context(), address, prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		activitytest.Put(t, store, activitytest.Example("x"))
		activitytest.Want(t, store, activitytest.Example("x"))
		if d := store.Durability(); !d.Synced || !strings.HasPrefix(d.How, want) {
			t.Errorf("%s: got %+v", address, d)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAStoreThatCannotBeIsSaid(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"":                                 "write sqlite:FILE",
		"sqlite:":                          "write sqlite:FILE",
		"mysql://root:secret@db/x":         "write sqlite:FILE",
		"postgres:secret":                  "must be like postgres://",
		"postgres://u:secret@[/x":          "must be like postgres://",
		"cassandra:db":                     "write cassandra:HOST",
		"pebble:" + string([]byte{0, 'x'}): "",
	} {
		store, err := Open(t.Context(), address, prometheus.NewRegistry())
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") || store != nil {
			t.Errorf("%q: got %v, %v, want %q and no password", address, store, err, want)
		}
	}
}

func TestADatabaseThatIsNotThereIsWaitedFor(t *testing.T) {
	t.Parallel()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := Open(ctx, "postgres://u:secret@127.0.0.1:1/x?sslmode=disable", prometheus.NewRegistry())
	if !errors.Is(err, activity.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
	if time.Since(began) < retryPause {
		t.Error("it was not tried again")
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"postgres://u:secret@db/x?password=p&sslmode=disable": "postgres://u:xxxxx@db/x?password=xxxxx&sslmode=disable",
		"sqlite:a:b@c.db":         "sqlite:a:b@c.db",
		"pebble:/data/50%":        "pebble:/data/50%",
		"cassandra:a,b/k":         "cassandra:a,b/k",
		"off":                     "off",
		"postgres://u:secret@[/x": "postgres://...",
	} {
		if got := Redact(address); got != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
	}
}
