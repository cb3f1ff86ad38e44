package logstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"loadstone/block/lsm"
	"loadstone/block/lsm/lsmtest"
	"loadstone/system/chat"
)

const written = 300 // messages of each stream, over some blocks

// table writes a log whose messages are in one table, and returns that table's path.
func table(t *testing.T, dir string) string {
	t.Helper()
	l := open(t, dir, vfs.Default)
	add(t, l, 1, 2)
	told := make(chan error, 2*written)
	for n := range written {
		for _, stream := range []int64{1, 2} {
			m := chat.Message{Sender: "a", ID: fmt.Sprint(n), Text: fmt.Sprintf("%x", n*n*n*7919)}
			if err := l.Say(&chat.Draft{Stream: stream, Message: m, Done: func(s *chat.Said) { told <- s.Err }}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 2 * written {
		if err := <-told; err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(l.db.Flush(), l.Close()); err != nil {
		t.Fatal(err)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) != 1 {
		t.Fatalf("got the tables %q, %v", tables, err)
	}
	return tables[0]
}

// readAll reads all that was written, and returns why it is not all there.
func readAll(l *Log) error {
	for _, stream := range []int64{1, 2} {
		for from := uint64(0); from < written; {
			found, err := l.Read(stream, from, written)
			if err != nil {
				return err
			}
			if len(found) == 0 {
				return fmt.Errorf("stream %d ends at %d", stream, from)
			}
			from += uint64(len(found))
		}
	}
	return nil
}

// Wherever a byte of a table is damaged, the log is refused or the rooms have their lengths: never is one
// taken for empty, and its offsets given again. What is read is right or an error, and the log goes on.
func TestDamageIsFound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := table(t, dir)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused, unread := 0, 0
	const places = 20
	for i := range places {
		at := i * len(whole) / places
		switch err := damagedAt(t, dir, path, whole, at); {
		case errors.Is(err, errRefused):
			refused++
		case err != nil:
			unread++
		}
	}
	if refused == 0 || unread == 0 {
		t.Errorf("of %d places %d were refused at the start and %d when they were read: both are to happen", places, refused, unread)
	}
}

var errRefused = errors.New("the log cannot be opened")

// damagedAt opens a copy of a log with one byte of its table damaged, and returns why not all of it can be read.
func damagedAt(t *testing.T, dir, table string, whole []byte, at int) error {
	t.Helper()
	c := DefaultConfig()
	c.Dir = filepath.Join(t.TempDir(), "log")
	if err := os.CopyFS(c.Dir, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(whole)
	damaged[at] ^= 0xff
	if err := os.WriteFile(filepath.Join(c.Dir, filepath.Base(table)), damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := Open(t.Context(), c)
	if err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	defer l.Close()
	for _, stream := range []int64{1, 2} {
		if n := l.Length(stream); n != written {
			t.Errorf("a byte at %d of %d is damaged, and stream %d has %d messages, want %d", at, len(whole), stream, n, written)
		}
	}
	err = readAll(l)
	if err != nil && l.db.Damage() == 0 {
		t.Errorf("a byte at %d of %d is damaged, it is not counted, and reading fails with %v", at, len(whole), err)
	}
	if !l.Ready() {
		t.Errorf("a byte at %d of %d is damaged, and the whole log has stopped: %v", at, len(whole), l.db.Down())
	}
	return err
}

// A log that cannot go on ends, so that its process does and is started again.
func TestALogThatCannotGoOnEnds(t *testing.T) {
	t.Parallel()
	disk := &lsmtest.Disk{FS: vfs.Default}
	l := open(t, t.TempDir(), disk)
	add(t, l, 1)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := l.Run(stopped); err != nil {
		t.Errorf("a log that was stopped: got %v", err)
	}
	disk.Broken.Store(true)
	if s := say(t, l, 1, "a", "x"); !errors.Is(s.Err, chat.ErrUnavailable) {
		t.Errorf("got %v", s.Err)
	}
	if err := l.Run(t.Context()); !errors.Is(err, lsm.ErrStopped) {
		t.Errorf("got %v, want %v", err, lsm.ErrStopped)
	}
}

// Who only reads a log makes none.
func TestOnlyALogThatIsThereIsOpened(t *testing.T) {
	t.Parallel()
	c := DefaultConfig()
	c.Dir = filepath.Join(t.TempDir(), "log")
	if _, err := OpenExisting(t.Context(), c); !errors.Is(err, errNoLog) {
		t.Errorf("got %v, want %v", err, errNoLog)
	}
	if _, err := os.Stat(c.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is made: %v", err)
	}
	for _, openIt := range []func(context.Context, Config) (*Log, error){Open, OpenExisting} {
		l, err := openIt(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}
