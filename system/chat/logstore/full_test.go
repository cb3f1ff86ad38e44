package logstore

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"loadstone/block/lsm/lsmtest"
	"loadstone/system/chat"
)

// While the disk is full nothing is acknowledged, what is said waits until no more may wait and is refused then, and what is
// there can be read. When there is room again, what waited is stored; if the log ends instead, what was acknowledged
// is there all the same.
func TestAFullDiskRefusesAndLosesNothing(t *testing.T) {
	t.Parallel()
	for name, room := range map[string]bool{"there is room again": true, "the log ends": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			disk := &lsmtest.Disk{FS: vfs.Default}
			l := open(t, dir, disk)
			add(t, l, 1)
			var acked []string
			for i := range 20 {
				id := fmt.Sprint("before-", i)
				if s := say(t, l, 1, "noor", id); s.Err != nil {
					t.Fatal(s.Err)
				}
				acked = append(acked, id)
			}
			disk.Full.Store(true)
			const many = 1 << 16 // more than may ever wait
			told := make(chan *chat.Said, many)
			waiting := 0
			var refused error
			for i := 0; i < many && refused == nil; i++ {
				m := chat.Message{At: 5, Sender: "noor", Name: "Noor", ID: fmt.Sprint("full-", i), Text: "is anybody there?"}
				if refused = l.Say(&chat.Draft{Stream: 1, Message: m, Done: func(s *chat.Said) { told <- s }}); refused == nil {
					waiting++
				}
			}
			if !errors.Is(refused, chat.ErrOverloaded) || len(told) > 0 {
				t.Fatalf("a full disk: got %v after %d messages, of which %d were answered, want %v and no answer", refused, waiting, len(told), chat.ErrOverloaded)
			}
			if got := ids(t, l, 1); !slices.Equal(got, acked) {
				t.Errorf("a full disk has %q, want %q", got, acked)
			}
			if room {
				disk.Full.Store(false)
			} else {
				_ = l.Close() // it says that it could not write all
			}
			for range waiting {
				if s := <-told; (s.Err == nil) != room {
					t.Fatalf("who waited was told %v", s.Err)
				} else if room {
					acked = append(acked, fmt.Sprint("full-", len(acked)-20))
				}
			}
			after := t.TempDir() // what another process would find: this one has the first
			if err := os.CopyFS(after, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			l = open(t, after, vfs.Default)
			if got := ids(t, l, 1); len(got) < len(acked) || !slices.Equal(got[:len(acked)], acked) {
				t.Errorf("after a start there are %d messages, want the %d that were acknowledged first", len(got), len(acked))
			}
		})
	}
}
