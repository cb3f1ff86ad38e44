package logstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/lsm"
	"loadstone/block/lsm/lsmtest"
	"loadstone/system/chat"
)

func open(t *testing.T, dir string, files vfs.FS) *Log {
	t.Helper()
	c := DefaultConfig()
	c.Dir, c.Registerer = dir, prometheus.NewRegistry()
	l, err := openOn(t.Context(), files, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func openNew(t *testing.T) *Log {
	t.Helper()
	l := open(t, t.TempDir(), vfs.Default)
	add(t, l, 1, 2)
	return l
}

func add(t *testing.T, l *Log, ids ...int64) {
	t.Helper()
	for _, id := range ids {
		if err := l.AddStreams([]chat.Stream{{ID: id, Title: fmt.Sprint("stream ", id), Started: time.Unix(id, 0).UTC()}}); err != nil {
			t.Fatal(err)
		}
	}
}

// say says something and waits for what becomes of it.
func say(t *testing.T, l *Log, stream int64, sender, id string) chat.Said {
	t.Helper()
	done := make(chan chat.Said, 1)
	d := &chat.Draft{Stream: stream, Message: chat.Message{At: 5, Sender: sender, Name: "Noor", ID: id, Text: "text of " + id}, Done: func(s *chat.Said) { done <- *s }}
	if err := l.Say(d); err != nil {
		return chat.Said{Stream: stream, Err: err}
	}
	return <-done
}

func must(t *testing.T, s chat.Said, offset uint64, again bool) {
	t.Helper()
	if s.Err != nil || s.Offset != offset || s.Again != again || (s.Encoded == nil) != again {
		t.Errorf("got %+v, want offset %d, again %v", s, offset, again)
	}
}

// ids are the senders' ids of all messages of a room, and their offsets must have no gaps.
func ids(t *testing.T, l *Log, stream int64) (all []string) {
	t.Helper()
	found, next, err := l.Before(stream, 1<<62, chat.Limit{Messages: 1 << 20, Bytes: 1 << 30})
	if err != nil || uint64(len(found)) != next {
		t.Fatalf("got %d messages of %d, %v", len(found), next, err)
	}
	for i, e := range found {
		m, err := chat.ParseMessage(e.Bytes)
		if err != nil || e.Offset != uint64(i) || m.Offset != e.Offset {
			t.Fatalf("message %d has the offset %d, and %d in it, %v", i, e.Offset, m.Offset, err)
		}
		all = append(all, m.ID)
	}
	return all
}

func TestOffsetsAreARoomsOwn(t *testing.T) {
	t.Parallel()
	l := openNew(t)
	must(t, say(t, l, 1, "a", "x"), 0, false)
	must(t, say(t, l, 2, "a", "x"), 0, false)
	must(t, say(t, l, 1, "b", "x"), 1, false)
	must(t, say(t, l, 1, "a", "y"), 2, false)
	if got := ids(t, l, 1); !slices.Equal(got, []string{"x", "x", "y"}) {
		t.Errorf("got %q", got)
	}
}

func TestARetryIsNoSecondMessage(t *testing.T) {
	t.Parallel()
	l := openNew(t)
	must(t, say(t, l, 1, "a", "x"), 0, false)
	must(t, say(t, l, 1, "a", "y"), 1, false)
	must(t, say(t, l, 1, "a", "x"), 0, true)
	// And in one group: nobody is committed before the last is queued.
	var wait sync.WaitGroup
	var mu sync.Mutex
	offsets, again := map[uint64]int{}, 0
	for range 50 {
		wait.Add(1)
		if err := l.Say(&chat.Draft{Stream: 1, Message: chat.Message{Sender: "a", ID: "z"}, Done: func(s *chat.Said) {
			defer wait.Done()
			mu.Lock()
			defer mu.Unlock()
			offsets[s.Offset]++
			if s.Again {
				again++
			}
		}}); err != nil {
			t.Fatal(err)
		}
	}
	wait.Wait()
	if offsets[2] != 50 || again != 49 {
		t.Errorf("got offsets %v, %d of them again, want offset 2 for all and 49 again", offsets, again)
	}
	if err := l.EndStream(1, time.Unix(99, 0)); err != nil {
		t.Fatal(err)
	}
	must(t, say(t, l, 1, "a", "x"), 0, true)
	if s := say(t, l, 1, "a", "new"); !errors.Is(s.Err, chat.ErrEnded) {
		t.Errorf("after the end: got %+v", s)
	}
	if s := say(t, l, 7, "a", "new"); !errors.Is(s.Err, chat.ErrNoStream) {
		t.Errorf("in no room: got %+v", s)
	}
}

func TestAllIsThereAfterAStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, dir, vfs.Default)
	add(t, l, 1, 2, 3)
	if err := l.EndStream(2, time.Unix(9, 0).UTC()); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		must(t, say(t, l, 1, "a", fmt.Sprint(i)), uint64(i), false)
	}
	epoch, key := l.Epoch(), l.Key()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if s := say(t, l, 1, "a", "late"); !errors.Is(s.Err, chat.ErrUnavailable) {
		t.Errorf("after Close: got %+v", s)
	}
	if _, _, err := l.Before(1, 5, chat.Limit{Messages: 1, Bytes: 1}); !errors.Is(err, chat.ErrUnavailable) {
		t.Errorf("read after Close: got %v", err)
	}
	l = open(t, dir, vfs.Default)
	if l.Epoch() != epoch || !slices.Equal(l.Key(), key) || len(key) != keyBytes {
		t.Errorf("the epoch was %v and is %v", epoch, l.Epoch())
	}
	must(t, say(t, l, 1, "a", "7"), 7, true)
	must(t, say(t, l, 1, "a", "new"), 20, false)
	must(t, say(t, l, 3, "a", "new"), 0, false)
	if got := ids(t, l, 1); len(got) != 21 || got[20] != "new" {
		t.Errorf("got %q", got)
	}
	var order []int64
	for _, s := range l.Streams() {
		order = append(order, s.ID)
	}
	if !slices.Equal(order, []int64{3, 1, 2}) {
		t.Errorf("got streams %v, want those that are live first, the newest of them first", order)
	}
	if s, err := l.Stream(2); err != nil || s.Live() {
		t.Errorf("got %+v, %v, want it ended", s, err)
	}
}

func TestPagesGoBack(t *testing.T) {
	t.Parallel()
	l := openNew(t)
	for i := range 10 {
		say(t, l, 1, "a", fmt.Sprint(i))
		say(t, l, 2, "a", fmt.Sprint(i))
	}
	for _, c := range []struct {
		before uint64
		limit  chat.Limit
		want   []uint64
	}{
		{1 << 62, chat.Limit{Messages: 3, Bytes: 1 << 20}, []uint64{7, 8, 9}},
		{7, chat.Limit{Messages: 3, Bytes: 1 << 20}, []uint64{4, 5, 6}},
		{2, chat.Limit{Messages: 3, Bytes: 1 << 20}, []uint64{0, 1}},
		{0, chat.Limit{Messages: 3, Bytes: 1 << 20}, nil},
		{5, chat.Limit{Messages: 3, Bytes: 1}, []uint64{4}},
	} {
		found, next, err := l.Before(1, c.before, c.limit)
		var got []uint64
		for _, e := range found {
			got = append(got, e.Offset)
		}
		if err != nil || next != 10 || !slices.Equal(got, c.want) {
			t.Errorf("before %d, %v: got %v, next %d, %v, want %v", c.before, c.limit, got, next, err, c.want)
		}
	}
}

func TestOneProcessHasTheLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, dir, vfs.Default)
	c := DefaultConfig()
	c.Dir, c.Registerer = dir, prometheus.NewRegistry()
	if _, err := Open(context.Background(), c); !errors.Is(err, lsm.ErrInUse) {
		t.Errorf("got %v", err)
	}
}

// Nobody is told that a message is stored whose sync failed, and after that nothing is.
func TestWhatIsNotSyncedIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	disk := &lsmtest.Disk{FS: vfs.NewMem()}
	l := open(t, "log", disk)
	add(t, l, 1)
	must(t, say(t, l, 1, "a", "x"), 0, false)
	disk.Broken.Store(true)
	if s := say(t, l, 1, "a", "y"); !errors.Is(s.Err, chat.ErrUnavailable) {
		t.Errorf("got %+v", s)
	}
	if s := say(t, l, 1, "a", "z"); !errors.Is(s.Err, chat.ErrUnavailable) {
		t.Errorf("then: got %+v", s)
	}
	if l.Ready() {
		t.Error("it says that it is ready")
	}
}

func TestStreamsNeedIDs(t *testing.T) {
	t.Parallel()
	l := openNew(t)
	for _, id := range []int64{0, -1, chat.MaxStream + 1} {
		if err := l.AddStreams([]chat.Stream{{ID: id}}); err == nil || !strings.Contains(err.Error(), "an id is from 1") {
			t.Errorf("%d: got %v", id, err)
		}
	}
	if err := l.AddStreams([]chat.Stream{{ID: 1, Title: "another"}}); err != nil {
		t.Fatal(err)
	}
	if s, err := l.Stream(1); err != nil || s.Title != "stream 1" {
		t.Errorf("got %+v, %v, want it unchanged", s, err)
	}
}

// The key that signs tokens is in the directory.
func TestOthersCannotReadTheDirectory(t *testing.T) {
	t.Parallel()
	there := t.TempDir()
	if err := os.Chmod(there, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{there, filepath.Join(t.TempDir(), "new"), there} {
		c := DefaultConfig()
		c.Dir = dir
		log, err := Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(dir)
		if err := errors.Join(err, log.Close()); err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o700 {
			t.Errorf("%s is %v", dir, info.Mode())
		}
	}
	foreign := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(foreign, "x"), nil, 0o600), os.Chmod(foreign, 0o755)); err != nil {
		t.Fatal(err)
	}
	c := DefaultConfig()
	c.Dir = foreign
	if _, err := Open(t.Context(), c); err == nil {
		t.Error("a directory with other files was taken")
	}
}

func TestANewEpochStays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, dir, vfs.Default)
	old, key := l.Epoch(), string(l.Key())
	if err := l.NewEpoch(); err != nil {
		t.Fatal(err)
	}
	now := l.Epoch()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l = open(t, dir, vfs.Default); now == old || l.Epoch() != now || string(l.Key()) != key {
		t.Errorf("got epoch %v after %v and %v", l.Epoch(), old, now)
	}
}

// A host has one stream at a time, and no two streams have an id.
func TestStreamsOfHosts(t *testing.T) {
	t.Parallel()
	l := open(t, t.TempDir(), vfs.Default)
	if err := l.AddStreams([]chat.Stream{{ID: 7, Title: "of an operator"}}); err != nil {
		t.Fatal(err)
	}
	results := make(chan error, 8)
	for i := range cap(results) {
		go func() {
			_, err := l.StartStream(chat.Stream{Title: "t", HostID: fmt.Sprint("user-", i%4), Started: time.Now()})
			results <- err
		}()
	}
	started := 0
	for range cap(results) {
		switch err := <-results; {
		case err == nil:
			started++
		case !errors.Is(err, chat.ErrLive):
			t.Error(err)
		}
	}
	if all := l.Streams(); started != 4 || len(all) != 5 {
		t.Fatalf("got %d started, %+v", started, all)
	}
	if err := l.EndStream(8, time.Now()); err != nil {
		t.Fatal(err)
	}
	ended, err := l.Stream(8)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := l.StartStream(chat.Stream{Title: "again", HostID: ended.HostID}); err != nil || s.ID != 12 {
		t.Errorf("after the end: got %+v, %v", s, err)
	}
}

// The list is sorted after a change and not whenever somebody asks.
func TestTheListIsSortedOnce(t *testing.T) {
	t.Parallel()
	l := open(t, t.TempDir(), vfs.Default)
	streams, err := chat.InventStreams(3)
	if err := errors.Join(err, l.AddStreams(streams)); err != nil {
		t.Fatal(err)
	}
	ids := func() (ids []int64) {
		for _, s := range l.Streams() {
			ids = append(ids, s.ID)
		}
		return ids
	}
	before := l.Streams()
	if got := fmt.Sprint(ids()); got != "[3 2 1]" || &before[0] != &l.Streams()[0] {
		t.Errorf("got %s, or another list each time", got)
	}
	if err := l.EndStream(3, time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(ids()); got != "[2 1 3]" || !before[0].Live() {
		t.Errorf("after the end of the third: got %s, and in the list from before %+v", got, before[0])
	}
}
