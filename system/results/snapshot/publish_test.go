package snapshot

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"loadstone/system/results"
	"loadstone/system/results/resultstest"
)

// publishAt is what the file at path says.
func publishAt(t *testing.T, path string) (at time.Time) {
	t.Helper()
	if err := Reschedule(path, func(have, _ time.Time) (time.Time, error) { at = have; return have, nil }); err != nil {
		t.Fatal(err)
	}
	return at
}

func TestPublishAt(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "results.snapshot")
	source := resultstest.Generator(t, 1, 100)
	eat := time.FixedZone("", 3*3600)
	// RFC 3339 has years up to 9999; instants before 1970 are as good as any.
	for _, at := range []time.Time{
		time.Date(2026, 7, 20, 8, 0, 0, 123456000, eat), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), time.Date(1900, 1, 1, 0, 0, 0, 0, eat), {},
	} {
		build(t, path, results.Embargoed(source, at))
		if got := publishAt(t, path); !got.Equal(at) || (!at.IsZero() && got.Format(time.RFC3339Nano) != at.Format(time.RFC3339Nano)) {
			t.Errorf("built: got %v, want %v", got, at)
		}
	}
	built, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 7, 20, 8, 0, 0, 0, eat)
	for _, next := range []time.Time{at, {}} {
		if err := Reschedule(path, func(_, _ time.Time) (time.Time, error) { return next, nil }); err != nil {
			t.Fatal(err)
		}
		f, err := Follow(path, DefaultConfig()) // which checks all of it
		if err != nil {
			t.Fatal(err)
		}
		if state, ok := f.State(); !ok || !state.PublishAt.Equal(next) {
			t.Errorf("got %+v, %v, want %v", state, ok, next)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if state, ok := f.State(); ok {
			t.Errorf("closed: got %+v, want none", state)
		}
	}
	// Back to what it was, nothing is left of it; and a refusal changes nothing.
	no := errors.New("no")
	if err := Reschedule(path, func(_, _ time.Time) (time.Time, error) { return at, no }); !errors.Is(err, no) {
		t.Errorf("got %v, want what was said", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != string(built) {
		t.Errorf("the file differs from the one that was built: %v", err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("got %v and %v, want the file alone", entries, err)
	}
}

// A file of the version before, without an instant, is served as before.
func TestVersion1(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "results.snapshot")
	build(t, path, resultstest.Generator(t, 1, 100))
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint32(data[8:], 1)
	fixSums(data)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, path).Lookup(t.Context(), 7); err != nil || !publishAt(t, path).IsZero() {
		t.Errorf("got %v and %v, want a page and no instant", err, publishAt(t, path))
	}
}
