package sqlitestore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"loadstone/system/feed"
	"loadstone/system/feed/feedtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore(t *testing.T) {
	t.Parallel()
	feedtest.Stores(t, feedtest.Places{Large: os.Getenv("LARGE") == "1", Make: func(t *testing.T) feedtest.Open {
		t.Helper()
		path := filepath.Join(t.TempDir(), "feed.db")
		return func() (feed.Store, error) { return keep(Open(t.Context(), path)) }
	}})
}

func keep(s *Store, err error) (feed.Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

func TestOtherFilesAreRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, []byte(strings.Repeat("this is no database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
}

// TestQueriesArePlannedOnce: no value that is bound can change a plan, see queries.
func TestQueriesArePlannedOnce(t *testing.T) {
	t.Parallel()
	for name, query := range queries {
		rest := strings.ReplaceAll(strings.ReplaceAll(query, "json_each(?)", ""), "?+0", "")
		if strings.Contains(rest, "?") {
			t.Errorf("%s has a bare ? beside a column or as a limit: write ?+0", name)
		}
	}
}
