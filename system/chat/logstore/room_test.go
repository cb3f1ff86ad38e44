package logstore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"loadstone/block/lsm/lsmtest"
	"loadstone/system/chat"
)

// alter changes records and returns what the log of who did what got.
func alter(l *Log, stream int64, records map[string][]byte) (number uint64, err error) {
	_, err = l.Alter(&chat.Alteration{Stream: stream, Records: records, Entry: func(n uint64) ([]byte, error) {
		number = n
		return fmt.Append(nil, "entry ", n), nil
	}})
	return number, err
}

func TestRecordsAreAStreamsOwn(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	l := open(t, "log", disk)
	add(t, l, 1, 2)
	for i, c := range []struct {
		stream  int64
		records map[string][]byte
		number  uint64
	}{
		{1, map[string][]byte{"a": []byte("1"), "b": []byte("2")}, 0},
		{2, map[string][]byte{"a": []byte("3")}, 0},
		{1, map[string][]byte{"a": nil, "c": []byte("4")}, 1},
	} {
		if number, err := alter(l, c.stream, c.records); err != nil || number != c.number {
			t.Errorf("%d: got the number %d, %v", i, number, err)
		}
	}
	if _, err := alter(l, 3, nil); !errors.Is(err, chat.ErrNoStream) {
		t.Errorf("no stream: got %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, "log", disk)
	got := map[string]string{}
	if err := l.EachRecord(func(stream int64, name string, value []byte) error {
		got[fmt.Sprint(stream, name)] = string(value)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != "map[1b:2 1c:4 2a:3]" {
		t.Errorf("got %v", got)
	}
	entries, err := l.Entries(1, 1, 10)
	if err != nil || len(entries) != 1 || string(entries[0].Bytes) != "entry 0" {
		t.Errorf("got %v, %v", entries, err)
	}
}

func TestADeletedMessageIsNowhere(t *testing.T) {
	t.Parallel()
	l := openNew(t)
	for i := range 3 {
		must(t, say(t, l, 1, "a", fmt.Sprint(i)), uint64(i), false)
	}
	deleted, err := l.Alter(altered(1, 1))
	if err != nil {
		t.Fatal(err)
	}
	found, _, err := l.Before(1, 1<<62, chat.Limit{Messages: 10, Bytes: 1 << 20})
	if err != nil || len(found) != 3 || string(found[1].Bytes) != string(deleted) {
		t.Fatalf("got %v, %v", found, err)
	}
	if m, err := chat.ParseMessage(deleted); err != nil || !m.Deleted || m.Text != "" || m.Name != "" || m.Sender != "a" {
		t.Errorf("got %s, %v", deleted, err)
	}
	must(t, say(t, l, 1, "a", "1"), 1, true) // sent again it is not a second message
	if _, err := l.Alter(altered(1, 7)); err == nil {
		t.Error("a message that is not there was deleted")
	}
}

func TestTheLogOfWhoDidWhatIsBounded(t *testing.T) {
	t.Parallel()
	l := open(t, "log", vfs.NewMem())
	add(t, l, 1, 2)
	batch := l.db.NewBatch() // as if so many had been stored, which takes longer
	for i := range uint64(MaxEntries) {
		if err := batch.Set(appendKey(nil, entryKind, 1, i), []byte("x"), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(batch.Commit(nil), batch.Close()); err != nil {
		t.Fatal(err)
	}
	if number, err := alter(l, 1, nil); err != nil || number != MaxEntries {
		t.Errorf("got the number %d, %v", number, err)
	}
	all, err := l.Entries(1, 1<<63, 2*MaxEntries)
	if err != nil || len(all) != MaxEntries || all[len(all)-1].Offset != 1 {
		t.Errorf("got %d lines, %v", len(all), err)
	}
}

func TestNothingIsAlteredOnABrokenDisk(t *testing.T) {
	t.Parallel()
	disk := &lsmtest.Disk{FS: vfs.NewMem()}
	l := open(t, "log", disk)
	add(t, l, 1)
	disk.Broken.Store(true)
	if _, err := alter(l, 1, map[string][]byte{"a": []byte("1")}); !errors.Is(err, chat.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}
