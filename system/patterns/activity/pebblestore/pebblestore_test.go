package pebblestore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"loadstone/system/patterns/activity"
	"loadstone/system/patterns/activity/activitytest"
)

func TestMain(m *testing.M) {
	if activitytest.IsWriter() {
		os.Exit(activitytest.Writer(func(dir string) (activity.Store, error) { return Open(dir, prometheus.NewRegistry()) }))
	}
	if dir := os.Getenv(fatalDir); dir != "" {
		if err := fatal(dir); err != nil {
			panic(err)
		}
		fmt.Println("ok")
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestIsAStore(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "activities")
	activitytest.Suite(t, func(t *testing.T) activity.Store { t.Helper(); return open(t, dir) })
}

func TestKilledItLosesNothing(t *testing.T) {
	t.Parallel()
	activitytest.Kill(t, filepath.Join(t.TempDir(), "activities"), func(dir string) (activity.Store, error) {
		return Open(dir, prometheus.NewRegistry())
	})
}

func TestTheDirectoryIsLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	defer func() { _ = s.Close() }()
	if _, err := Open(dir, prometheus.NewRegistry()); err == nil {
		t.Error("two had it open")
	}
}

func TestADamagedValueIsAnError(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	defer func() { _ = s.Close() }()
	if err := s.db.Set([]byte("broken"), []byte{format, 2, 200}, pebble.Sync); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "broken"); !errors.Is(err, errValue) {
		t.Errorf("got %v, want that it is damaged", err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, a := range activitytest.Edges() {
		f.Add(a.ID, encode(nil, &a))
	}
	f.Add("x", []byte{})
	f.Add("x", []byte{format, 0x80})
	f.Add("x", []byte{format, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, id string, value []byte) {
		a, err := decode(id, value)
		if err != nil {
			return
		}
		if again, err := decode(id, encode(nil, &a)); err != nil || again != a {
			t.Errorf("got %+v, %v, want %+v", again, err, a)
		}
	})
}
