package lsm_test

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"loadstone/block/lsm"
	"loadstone/block/lsm/lsmtest"
)

func open(t *testing.T, dir string) (*lsm.DB, *lsmtest.Disk) {
	t.Helper()
	disk := &lsmtest.Disk{FS: vfs.Default}
	db, err := lsm.Open(dir, &pebble.Options{FS: disk, FormatMajorVersion: pebble.FormatNewest})
	if err != nil {
		t.Fatal(err)
	}
	return db, disk
}

func set(db *lsm.DB, key string) error {
	return db.Guard(func() error { return db.Set([]byte(key), []byte(key), pebble.Sync) })
}

func want(t *testing.T, db *lsm.DB, key string) {
	t.Helper()
	value, closer, err := db.Get([]byte(key))
	if err != nil || string(value) != key {
		t.Fatalf("%s: got %q and %v", key, value, err)
	}
	if err := closer.Close(); err != nil {
		t.Error(err)
	}
}

// taken is the directory that another process has.
const taken = "LSM_TEST_TAKEN"

func TestOneHasTheDirectory(t *testing.T) {
	t.Parallel()
	if dir := os.Getenv(taken); dir != "" { // this is the other process
		if _, err := lsm.Open(dir, &pebble.Options{}); !errors.Is(err, lsm.ErrInUse) {
			t.Errorf("another process got %v, want %v", err, lsm.ErrInUse)
		}
		return
	}
	dir := t.TempDir()
	db, _ := open(t, dir)
	another := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOneHasTheDirectory$")
	another.Env = append(os.Environ(), taken+"="+dir)
	if out, err := another.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := lsm.Open(dir, &pebble.Options{}); !errors.Is(err, lsm.ErrInUse) {
		t.Errorf("the second got %v, want %v", err, lsm.ErrInUse)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// A write that finds no room waits until there is some, and is whole then.
func TestAFullDiskPasses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, disk := open(t, dir)
	disk.Full.Store(true)
	done := make(chan error, 1)
	go func() { done <- set(db, "key") }()
	for deadline := time.Now().Add(time.Minute); !db.Full(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nobody waits for room")
		}
	}
	disk.Full.Store(false)
	if err := <-done; err != nil || db.Full() || db.Down() != nil {
		t.Errorf("there is room: got %v, full %v, down %v", err, db.Full(), db.Down())
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db, _ = open(t, dir)
	want(t, db, "key")
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// What pebble cannot survive ends the database, for this call and all that follow. Its
// goroutines stay until the process ends.
func TestWhatPebbleCannotSurvive(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*lsm.DB, *lsmtest.Disk){
		"a sync that fails":            func(_ *lsm.DB, disk *lsmtest.Disk) { disk.Broken.Store(true) },
		"no room and nobody who waits": func(db *lsm.DB, disk *lsmtest.Disk) { disk.Full.Store(true); db.GiveUp() },
		"no room, and then no more time": func(db *lsm.DB, disk *lsmtest.Disk) {
			disk.Full.Store(true)
			time.AfterFunc(10*time.Millisecond, db.GiveUp)
		},
	} {
		db, disk := open(t, t.TempDir())
		if err := set(db, "before"); err != nil {
			t.Fatal(err)
		}
		fail(db, disk)
		for range 2 {
			if err := set(db, "during"); !errors.Is(err, lsm.ErrStopped) {
				t.Errorf("%s: got %v, want %v", name, err, lsm.ErrStopped)
			}
		}
		if err := errors.Join(db.Down(), db.Close()); !errors.Is(err, lsm.ErrStopped) {
			t.Errorf("%s: got %v, want %v", name, err, lsm.ErrStopped)
		}
	}
}
