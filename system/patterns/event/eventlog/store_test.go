package eventlog

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"loadstone/system/patterns/event"
)

// openStore runs a store until the test ends or stop is called.
func openStore(t *testing.T, file string, commit Commit) (s *Store, stop func()) {
	t.Helper()
	s, err := OpenStore(t.Context(), file, commit)
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return s, stop
}

func TestStoreKeepsEachOnce(t *testing.T) {
	t.Parallel()
	for _, commit := range []Commit{CommitEach, CommitGroup} {
		t.Run(string(commit), func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "events ?#.db") // a name is no URL
			s, stop := openStore(t, file, commit)
			const callers, each = 8, 10
			var wait sync.WaitGroup
			for c := range callers {
				wait.Go(func() {
					for i := range each {
						e := event.Event{ID: fmt.Sprintf("%d-%d", c, i), Key: fmt.Sprint(c), Body: []byte("{}"), Accepted: time.Now()}
						for range 2 { // the second is known
							if err := s.put(t.Context(), []event.Event{e}); err != nil {
								t.Error(err)
							}
						}
					}
				})
			}
			wait.Wait()
			if got := s.duplicates.Load(); got != callers*each {
				t.Errorf("duplicates: got %d, want %d", got, callers*each)
			}
			stop()
			again, _ := openStore(t, file, commit)
			if got := again.stored.Load(); got != callers*each {
				t.Errorf("stored, after a restart: got %d, want %d", got, callers*each)
			}
			missing, err := again.missing(t.Context(), []string{"0-0", "nobody", "7-9"})
			if err != nil || !slices.Equal(missing, []string{"nobody"}) {
				t.Errorf("missing: got %q and %v, want nobody", missing, err)
			}
			var ids []string
			rows, err := again.db.Read.QueryContext(t.Context(), "SELECT id FROM events WHERE key = '3' ORDER BY place")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = rows.Close() }()
			for rows.Next() {
				var id string
				if err := rows.Scan(&id); err != nil {
					t.Fatal(err)
				}
				ids = append(ids, id)
			}
			if err := rows.Err(); err != nil || len(ids) != each || !slices.IsSorted(ids) {
				t.Errorf("order of a key: got %q and %v, want its %d events in order", ids, err, each)
			}
		})
	}
}

func TestClosedStoreRefuses(t *testing.T) {
	t.Parallel()
	s, stop := openStore(t, filepath.Join(t.TempDir(), "events.db"), CommitGroup)
	stop()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.put(ctx, []event.Event{{ID: "a", Body: []byte("1")}}); err == nil || ctx.Err() != nil {
		t.Errorf("put: got %v, want it refused at once", err)
	}
}
