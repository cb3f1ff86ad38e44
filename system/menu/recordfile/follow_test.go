package recordfile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"loadstone/block/dataset"
	"loadstone/block/follow"
	"loadstone/system/menu"
	"loadstone/system/menu/menutest"
)

// Readers look up without pause while new files come: each answer is whole and from one
// file, none fails, no reader goes back to an older file, and the old files go.
func TestLookupsWhileFilesAreSwapped(t *testing.T) {
	t.Parallel()
	const count, swaps, readers = 60, 8, 4
	path := filepath.Join(t.TempDir(), "menus.record")
	var tags [swaps + 1][count + 1]uint64 // of the bodies in each file
	for seed := range tags {
		for m, err := range menutest.Generator(t, uint64(seed), count).All(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			tags[seed][m.ID] = menu.Tag(m.AppendJSON(nil))
		}
	}
	build(t, path, menutest.Generator(t, 0, count))
	var switches, lookups atomic.Int64
	follower, err := Follow(path, Config{CacheBytes: 1 << 20, Settings: follow.Settings{Interval: time.Millisecond, Events: follow.Events{
		Switched: func(from, to dataset.Meta) {
			if from == to {
				t.Errorf("switched from %q to itself", from.Origin)
			}
			switches.Add(1)
		},
		Refused: func(err error) { t.Errorf("refused: %v", err) },
	}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := follower.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	for range readers {
		running.Go(func() {
			newest := 0
			for id := int64(1); ctx.Err() == nil; id = id%count + 1 {
				page, err := follower.Lookup(ctx, id)
				if err != nil || menu.Tag(page.Body) != page.Tag {
					t.Errorf("look up %d: %v", id, err)
					return
				}
				for page.Tag != tags[newest][id] {
					if newest++; newest > swaps {
						t.Errorf("look up %d: an answer that is in no file from there on: %s", id, page.Body)
						return
					}
				}
				lookups.Add(1)
			}
		})
	}
	for seed := 1; seed <= swaps; seed++ {
		build(t, path, menutest.Generator(t, uint64(seed), count))
		waitFor(t, "the switch", func() bool { return switches.Load() == int64(seed) })
		before := lookups.Load()
		waitFor(t, "look-ups", func() bool { return lookups.Load() > before+readers || t.Failed() })
	}
	cancel()
	running.Wait()
	if got, want := follower.Meta(), menutest.Generator(t, swaps, count).Meta(); got != want {
		t.Errorf("meta: got %+v, want %+v", got, want)
	}
	held := func(want int) func() bool {
		return func() bool { runtime.GC(); return opened(t, path) == want }
	}
	waitFor(t, "the old files to go", held(1))
	if err := follower.Close(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the last file to go", held(0))
	_, lookup := follower.Lookup(t.Context(), 1)
	_, compressed := follower.Compressed(1)
	if !errors.Is(lookup, menu.ErrUnavailable) || !errors.Is(compressed, menu.ErrUnavailable) || follower.Meta() != (dataset.Meta{}) {
		t.Errorf("after close: got %v and %v, want ErrUnavailable", lookup, compressed)
	}
}

func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long for %s", what)
		}
		runtime.Gosched()
	}
}

// opened counts the mappings of a file, and of its deleted predecessors.
func opened(t *testing.T, path string) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(maps), path)
}
