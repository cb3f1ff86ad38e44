package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/lsm"
	"loadstone/block/lsm/lsmtest"
	"loadstone/system/patterns/activity"
	"loadstone/system/patterns/activity/activitytest"
)

func openFaulty(t *testing.T, dir string) (*Store, *lsmtest.Disk) {
	t.Helper()
	f := &lsmtest.Disk{FS: vfs.Default}
	s, err := openOn(f, dir, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return s, f
}

func put(ctx context.Context, s *Store, id string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	a := activitytest.Example(id)
	return s.Put(ctx, &a)
}

// late is a context whose deadline passes when a write waits for room on the disk.
type late struct {
	context.Context

	done chan struct{}
}

func untilFull(ctx context.Context, s *Store) context.Context {
	c := late{ctx, make(chan struct{})}
	go func() {
		for !s.db.Full() {
			time.Sleep(time.Millisecond)
		}
		close(c.done)
	}()
	return c
}

// Done implements context.Context.
func (c late) Done() <-chan struct{} { return c.done }

// Err implements context.Context.
func (c late) Err() error {
	select {
	case <-c.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func TestAFullDiskIsSaidAndPasses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, f := openFaulty(t, dir)
	activitytest.Put(t, s, activitytest.Example("before"))
	f.Full.Store(true)
	// The one that finds it out is left without an answer, the others are told.
	if err := put(untilFull(t.Context(), s), s, "during", 2*time.Minute); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, lsm.ErrFull) {
		t.Errorf("got %v, want that it took too long, and why", err)
	}
	err := put(t.Context(), s, "refused", time.Minute)
	if !errors.Is(err, activity.ErrUnavailable) || !errors.Is(err, lsm.ErrFull) {
		t.Errorf("got %v, want that the disk is full", err)
	}
	activitytest.Want(t, s, activitytest.Example("before"))

	f.Full.Store(false)
	for deadline := time.Now().Add(2 * time.Minute); put(t.Context(), s, "after", time.Second) != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("there is room, and nothing is stored")
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir) // what was written in two parts is whole
	for _, id := range []string{"before", "during", "after"} {
		activitytest.Want(t, s, activitytest.Example(id))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestEachPutSyncsTheLog(t *testing.T) {
	t.Parallel()
	s, f := openFaulty(t, t.TempDir())
	defer func() { _ = s.Close() }()
	for _, id := range []string{"a", "b", "c"} {
		before := f.Syncs.Load()
		activitytest.Put(t, s, activitytest.Example(id))
		if f.Syncs.Load() == before {
			t.Error("an activity was acknowledged that was not synced")
		}
	}
	if !s.Durability().Synced {
		t.Error("it syncs and does not say so")
	}
	s.synced = false
	if d := s.Durability(); d.Synced || strings.Contains(d.How, "log synced") {
		t.Errorf("got %+v of a store that does not sync", d)
	}
}

const fatalDir = "PEBBLESTORE_TEST_FATAL_DIR"

// What pebble cannot survive leaves goroutines behind, so that happens in a process of
// its own.
func TestWhatPebbleCannotSurviveEndsTheStoreAndNotTheProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, how := range []string{"broken", "full"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), fatalDir+"="+dir+"/"+how)
		if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("ok")) {
			t.Fatalf("%s: %v\n%s", how, err, out)
		}
		s := open(t, dir+"/"+how) // what was acknowledged is there
		activitytest.Want(t, s, activitytest.Example("before"))
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// fatal is that process. It returns what went wrong.
func fatal(dir string) error {
	f := &lsmtest.Disk{FS: vfs.Default}
	s, err := openOn(f, dir, prometheus.NewRegistry())
	if err != nil {
		return err
	}
	ctx := context.Background()
	if err := put(ctx, s, "before", time.Minute); err != nil {
		return err
	}
	if strings.HasSuffix(dir, "full") { // and closed before there is room
		f.Full.Store(true)
		if err := put(untilFull(ctx, s), s, "during", 2*time.Minute); !errors.Is(err, context.DeadlineExceeded) {
			return errors.Join(errors.New("on a full disk"), err)
		}
	} else {
		f.Broken.Store(true)
		for range 2 { // also the next
			if err := put(ctx, s, "during", time.Minute); !errors.Is(err, activity.ErrUnavailable) || !errors.Is(err, lsm.ErrStopped) {
				return errors.Join(errors.New("after a failed sync"), err)
			}
		}
		if _, err := s.Get(ctx, "before"); !errors.Is(err, activity.ErrUnavailable) {
			return errors.Join(errors.New("read after a failed sync"), err)
		}
	}
	if err := s.Close(); !errors.Is(err, lsm.ErrStopped) {
		return errors.Join(errors.New("close"), err)
	}
	return nil
}
