package snapshot

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"loadstone/block/objects"
	"loadstone/block/pause"
)

// Variables that make the test binary a publisher that is killed.
const (
	victimDir  = "SNAPSHOT_VICTIM_DIR"
	victimName = "SNAPSHOT_VICTIM_NAME"
)

// generation are the pages of one publication: all of them say which, some stay as they were.
func generation(n int, who string) []Page {
	pages := texts(6, fmt.Sprintf("%s %d %s", who, n, strings.Repeat(who, 2000)))
	return append(pages, texts(9, "as ever")[6:]...)
}

// whose is what generation was asked for, and whether all pages are of one.
func whose(s *Snapshot) (n int, err error) {
	body, _ := s.Page("pages/1.json")
	fields := strings.Fields(string(body[strings.Index(string(body), `"text":"`)+8:]))
	n, err = strconv.Atoi(fields[1])
	if err != nil {
		return 0, err
	}
	for i, want := range generation(n, fields[0]) {
		if got, ok := s.Page(want.Name); !ok || string(got) != string(want.Body) {
			return 0, fmt.Errorf("page %d is not of generation %d of %s", i+1, n, fields[0])
		}
	}
	return n, nil
}

// runAsVictim publishes what counts the publications, and collects, until it is killed.
func runAsVictim() bool {
	path := os.Getenv(victimDir)
	if path == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // in case the test is killed
	defer cancel()
	store, err := objects.OpenDirectory(path)
	if err != nil {
		panic(err)
	}
	cfg := DefaultConfig()
	cfg.Store, cfg.Keep, cfg.Deltas = store, 100*time.Millisecond, 1
	p, err := NewPublisher(cfg)
	if err != nil {
		panic(err)
	}
	for ctx.Err() == nil {
		_, err := p.Publish(ctx, func(_ context.Context, last *Snapshot) ([]Page, error) {
			n := 0
			if last != nil {
				if n, err = whose(last); err != nil {
					return nil, err
				}
			}
			return generation(n+1, os.Getenv(victimName)), nil
		}, Options{})
		if err == nil {
			_, err = p.Collect(ctx)
		}
		if err != nil && !errors.Is(err, ErrSuperseded) {
			panic(err)
		}
	}
	return true
}

// Two publishers at once, killed at moments that nobody chooses and started again; readers go on meanwhile, who check
// every hash, and that they see one generation, and no earlier one than before.
func TestPublishersAreKilled(t *testing.T) {
	t.Parallel()
	kills := 20
	if os.Getenv("LARGE") == "1" {
		kills = 100
	}
	path := t.TempDir()
	var newest, seen atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var readers sync.WaitGroup
	defer readers.Wait()
	defer stop()
	for range 2 {
		readers.Go(func() { watch(ctx, t, path, &newest, &seen) })
	}
	random := rand.New(rand.NewPCG(uint64(kills), 7))
	victims := [2]*exec.Cmd{}
	for n := range kills {
		for i := range victims {
			if victims[i] == nil {
				victims[i] = start(t, path, string(rune('a'+i)))
			}
		}
		// At least one publication, and then a moment.
		deadline := time.Now().Add(5 * time.Minute)
		for before := newest.Load(); newest.Load() == before; time.Sleep(time.Millisecond) {
			if t.Failed() || time.Now().After(deadline) {
				t.Fatal("nothing is published any more")
			}
		}
		time.Sleep(time.Duration(random.IntN(20_000)) * time.Microsecond)
		i := n % len(victims)
		_ = victims[i].Process.Kill()
		_ = victims[i].Wait() // killed
		victims[i] = nil
	}
	for _, v := range victims {
		if v != nil {
			_ = v.Process.Kill()
			_ = v.Wait() // killed
		}
	}
	stop()
	readers.Wait()
	t.Logf("%d kills, %d generations, of which readers saw %d", kills, newest.Load(), seen.Load())
	// Whatever the killed ones left, the next publisher makes the next version, and nothing is left of them.
	store := directory(t, path)
	last, err := NewReader(store).Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := publisher(t, store, nil)
	p.cfg.Deltas = 0
	publish(t, p, Options{Forget: true}, generation(1, "end")...)
	if _, err := p.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	reads(t, NewReader(store), last.Manifest.Version+1, generation(1, "end"))
	if n := count(t, store); n != 10 {
		t.Errorf("%d objects are left, want nine pages and an index", n)
	}
}

func start(t *testing.T, path, name string) *exec.Cmd {
	t.Helper()
	v := exec.Command(os.Args[0])
	v.Env = append(os.Environ(), victimDir+"="+path, victimName+"="+name)
	v.Stderr = os.Stderr
	if err := v.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = v.Process.Kill()
		_ = v.Wait() // killed
	})
	return v
}

// watch reads until the context ends, now and then as one who has read nothing yet.
func watch(ctx context.Context, t *testing.T, path string, newest, seen *atomic.Int64) {
	store := directory(t, path)
	r, was, version := NewReader(store), 0, uint64(0)
	for n := 0; pause.For(ctx, time.Millisecond); n++ {
		if n%10 == 0 {
			r = NewReader(store)
		}
		s, err := r.Read(ctx)
		if ctx.Err() != nil || errors.Is(err, ErrNone) {
			continue
		}
		// Versions are kept for a tenth of a second only, so that collections meet readers: who is that slow begins again.
		if errors.Is(err, objects.ErrNotFound) {
			continue
		}
		if err != nil {
			t.Error(err)
			return
		}
		now, err := whose(s)
		if err != nil || now < was || s.Manifest.Version < version {
			t.Errorf("generation %d, version %d after %d, %d: %v", now, s.Manifest.Version, was, version, err)
			return
		}
		if now > was {
			seen.Add(1)
		}
		was, version = now, s.Manifest.Version
		for old := newest.Load(); int64(now) > old && !newest.CompareAndSwap(old, int64(now)); old = newest.Load() {
		}
	}
}
