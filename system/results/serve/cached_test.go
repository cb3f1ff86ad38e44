package serve

import (
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/system/results"
	"loadstone/system/results/pagecache"
	"loadstone/system/results/resultstest"
	"loadstone/system/results/snapshot"
)

// behind is a store of one data set.
func behind(store results.Store) backing {
	return backing{Store: store, set: func() pagecache.Set { return 1 }}
}

func memoryOnly() Config {
	cfg := DefaultConfig()
	cfg.Cache = CacheMemory
	return cfg
}

// A cached store is a store.
func TestCachedStore(t *testing.T) {
	t.Parallel()
	resultstest.Store(t, func(t *testing.T, source results.Source) results.Store {
		t.Helper()
		path := filepath.Join(t.TempDir(), "results.snapshot")
		if err := snapshot.Build(t.Context(), path, source, nil); err != nil {
			t.Fatal(err)
		}
		inner, err := snapshot.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := inner.Close(); err != nil {
				t.Error(err)
			}
		})
		c, err := newCached(behind(inner), memoryOnly(), nil, prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		return c
	})
}

func TestCachedPagesOwnTheirBytes(t *testing.T) {
	t.Parallel()
	store := memory{7: {Body: []byte("body"), Code: []byte("code"), Tag: 9, Owner: t}}
	c, err := newCached(behind(store), memoryOnly(), nil, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Lookup(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	// The store's memory is used for something else.
	copy(store[7].Body, "XXXX")
	copy(store[7].Code, "XXXX")
	got, err := c.Lookup(t.Context(), 7)
	if err != nil || string(got.Body) != "body" || string(got.Code) != "code" || got.Tag != 9 || got.Owner != nil {
		t.Errorf("got %q, %q, tag %d, owner %v and %v, want the page as it was loaded, without an owner",
			got.Body, got.Code, got.Tag, got.Owner, err)
	}
}

func TestEntryBytes(t *testing.T) {
	t.Parallel()
	if want := int(unsafe.Sizeof(pagecache.Key{})) + int(unsafe.Sizeof(results.Page{})); entryBytes != want {
		t.Errorf("got %d, want %d", entryBytes, want)
	}
}
