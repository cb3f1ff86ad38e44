package snapshot

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"loadstone/block/dataset"
	"loadstone/block/follow"
	"loadstone/system/results"
	"loadstone/system/results/resultstest"
)

// TestLookupsWhileFilesAreSwapped reads without pause while new files come. Each
// answer must be whole and from one file, none may fail, a reader must never go
// back to an older file, and the copies of the old files must go.
func TestLookupsWhileFilesAreSwapped(t *testing.T) {
	t.Parallel()
	const count, swaps, readers = 300, 12, 4
	path := filepath.Join(t.TempDir(), "results.snapshot")
	// pages[seed][id] is the answer of that file.
	var pages [swaps + 1][count + 1]results.Page
	for seed := range pages {
		source := resultstest.Generator(t, uint64(seed), count)
		for id := int64(1); id <= count; id++ {
			student := source.Student(id)
			pages[seed][id] = results.NewPage(&student)
		}
	}
	build(t, path, resultstest.Generator(t, 0, count))

	var switches atomic.Int64
	follower, err := Follow(path, Config{
		Interval: time.Millisecond,
		Events: follow.Events{
			Switched: func(from, to dataset.Meta) {
				if from == to {
					t.Errorf("switched from %q to itself", from.Origin)
				}
				switches.Add(1)
			},
			Refused: func(err error) { t.Errorf("refused: %v", err) },
		},
	})
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
	var lookups atomic.Int64
	for range readers {
		running.Go(func() {
			newest := 0
			for id := int64(1); ctx.Err() == nil; id = id%count + 1 {
				page, err := follower.Lookup(ctx, id)
				if err != nil {
					t.Errorf("look up %d: %v", id, err)
					return
				}
				for !resultstest.SamePage(page, pages[newest][id]) {
					if newest++; newest > swaps {
						t.Errorf("look up %d: got an answer that is in no file from there on: %s", id, page.Body)
						return
					}
				}
				runtime.KeepAlive(page)
				lookups.Add(1)
			}
		})
	}
	for seed := 1; seed <= swaps; seed++ {
		build(t, path, resultstest.Generator(t, uint64(seed), count))
		waitFor(t, "the switch", func() bool { return switches.Load() == int64(seed) })
		before := lookups.Load()
		waitFor(t, "look-ups", func() bool { return lookups.Load() > before+readers || t.Failed() })
	}
	cancel()
	running.Wait()
	if got, want := follower.Meta(), resultstest.Generator(t, swaps, count).Meta(); got != want {
		t.Errorf("meta: got %+v, want %+v", got, want)
	}
	waitForCopies(t, path, 1)
	if err := follower.Close(); err != nil {
		t.Fatal(err)
	}
	waitForCopies(t, path, 0)
	if _, err := follower.Lookup(t.Context(), 1); !errors.Is(err, results.ErrUnavailable) {
		t.Errorf("after close: got %v, want ErrUnavailable", err)
	}
	t.Logf("%d look-ups over %d files", lookups.Load(), switches.Load()+1)
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

// TestBadFilesAreRefusedOnce puts one file after the other at the path, under a
// clock that the test moves.
func TestBadFilesAreRefusedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "results.snapshot")
		build(t, path, resultstest.Generator(t, 1, 10))
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex // guards refused and switched
		var refused []error
		switched := 0
		follower, err := Follow(path, Config{Interval: time.Second, Events: follow.Events{
			Switched: func(dataset.Meta, dataset.Meta) {
				mu.Lock()
				defer mu.Unlock()
				switched++
			},
			Refused: func(err error) {
				mu.Lock()
				defer mu.Unlock()
				refused = append(refused, err)
			},
		}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		go func() { _ = follower.Run(ctx) }() // the bubble waits for it
		expect := func(what string, refusals, switches int, seed uint64) {
			t.Helper()
			time.Sleep(10 * time.Second) // of the bubble's clock: ten looks
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if len(refused) != refusals || switched != switches {
				t.Fatalf("%s: got %d refusals and %d switches, want %d and %d: %v", what,
					len(refused), switched, refusals, switches, refused)
			}
			page, err := follower.Lookup(ctx, 5)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			student := resultstest.Generator(t, seed, 10).Student(5)
			resultstest.CheckPage(t, page, &student)
		}
		replace := func(data []byte) {
			t.Helper()
			if err := os.WriteFile(path+".new", data, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(path+".new", path); err != nil {
				t.Fatal(err)
			}
		}

		expect("nothing new", 0, 0, 1)
		changed := bytes.Clone(whole)
		changed[headerSize+50] ^= 1
		replace(changed)
		expect("a changed byte", 1, 0, 1)
		replace(whole[:len(whole)-1])
		expect("a cut file", 2, 0, 1)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		expect("no file", 3, 0, 1)
		build(t, path, resultstest.Generator(t, 2, 10))
		expect("a good file", 3, 1, 2)
		replace([]byte("id,name\n"))
		expect("a text", 4, 1, 2)
		replace(whole)
		expect("the first file again", 4, 2, 1)

		for i, want := range []error{results.ErrCorrupt, results.ErrCorrupt, results.ErrMissing, results.ErrCorrupt} {
			if !errors.Is(refused[i], want) || !strings.Contains(refused[i].Error(), path) {
				t.Errorf("refusal %d: got %v, want %v and the path", i, refused[i], want)
			}
		}
		// A closed follower is not opened again by a new file.
		if err := follower.Close(); err != nil {
			t.Fatal(err)
		}
		build(t, path, resultstest.Generator(t, 3, 10))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if _, err := follower.Lookup(ctx, 5); !errors.Is(err, results.ErrUnavailable) {
			t.Errorf("after close: got %v, want ErrUnavailable", err)
		}
	})
}

func TestIntervalIsChecked(t *testing.T) {
	t.Parallel()
	for _, interval := range []time.Duration{0, -time.Second} {
		_, err := Follow("unused", Config{Interval: interval})
		if err == nil || !strings.Contains(err.Error(), "interval is "+interval.String()) {
			t.Errorf("interval %v: got %v, want a refusal", interval, err)
		}
	}
}
