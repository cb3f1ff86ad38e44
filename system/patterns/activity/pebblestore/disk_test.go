package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"loadstone/system/patterns/activity"
	"loadstone/system/patterns/activity/activitytest"
)

// faulty is a file system that can be full, or broken.
type faulty struct {
	vfs.FS
	full, broken atomic.Bool
	syncs        atomic.Int64 // of logs
}

func (f *faulty) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.file(f.FS.Create(name, category))
}

func (f *faulty) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.file(f.FS.ReuseForWrite(oldname, newname, category))
}

func (f *faulty) file(inner vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &faultyFile{inner, f}, nil
}

type faultyFile struct {
	vfs.File
	fs *faulty
}

// Write has room for half of what it is given.
func (f *faultyFile) Write(p []byte) (int, error) {
	if f.fs.full.Load() {
		n, err := f.File.Write(p[:len(p)/2])
		return n, errors.Join(err, &fs.PathError{Op: "write", Path: "log", Err: syscall.ENOSPC})
	}
	return f.File.Write(p)
}

func (f *faultyFile) Sync() error {
	if f.fs.broken.Load() {
		return syscall.EIO
	}
	f.fs.syncs.Add(1)
	return f.File.Sync()
}

func (f *faultyFile) SyncData() error {
	if f.fs.broken.Load() {
		return syscall.EIO
	}
	f.fs.syncs.Add(1)
	return f.File.SyncData()
}

func openFaulty(t *testing.T, dir string) (*Store, *faulty) {
	t.Helper()
	f := &faulty{FS: vfs.Default}
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

func TestAFullDiskIsSaidAndPasses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, f := openFaulty(t, dir)
	activitytest.Put(t, s, activitytest.Example("before"))
	f.full.Store(true)
	// The one that finds it out is left without an answer, the others are told.
	if err := put(t.Context(), s, "during", 300*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errFull) {
		t.Errorf("got %v, want that it took too long, and why", err)
	}
	err := put(t.Context(), s, "refused", time.Minute)
	if !errors.Is(err, activity.ErrUnavailable) || !errors.Is(err, errFull) {
		t.Errorf("got %v, want that the disk is full", err)
	}
	activitytest.Want(t, s, activitytest.Example("before"))

	f.full.Store(false)
	for deadline := time.Now().Add(10 * time.Second); put(t.Context(), s, "after", time.Second) != nil; time.Sleep(time.Millisecond) {
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
		before := f.syncs.Load()
		activitytest.Put(t, s, activitytest.Example(id))
		if f.syncs.Load() == before {
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
	f := &faulty{FS: vfs.Default}
	s, err := openOn(f, dir, prometheus.NewRegistry())
	if err != nil {
		return err
	}
	ctx := context.Background()
	if err := put(ctx, s, "before", time.Minute); err != nil {
		return err
	}
	if strings.HasSuffix(dir, "full") { // and closed before there is room
		f.full.Store(true)
		if err := put(ctx, s, "during", 300*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
			return errors.Join(errors.New("on a full disk"), err)
		}
	} else {
		f.broken.Store(true)
		for range 2 { // also the next
			if err := put(ctx, s, "during", time.Minute); !errors.Is(err, activity.ErrUnavailable) || !errors.Is(err, errStopped) {
				return errors.Join(errors.New("after a failed sync"), err)
			}
		}
		if _, err := s.Get(ctx, "before"); !errors.Is(err, activity.ErrUnavailable) {
			return errors.Join(errors.New("read after a failed sync"), err)
		}
	}
	if err := s.Close(); !errors.Is(err, errStopped) {
		return errors.Join(errors.New("close"), err)
	}
	return nil
}
