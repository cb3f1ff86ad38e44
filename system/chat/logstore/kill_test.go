package logstore

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"loadstone/system/chat"
)

// childDir makes a run of this test's binary a writer of the log in that directory.
const childDir = "CHAT_LOG_OF_A_TEST"

// TestWriter is the process that is killed: it writes as fast as it can, from several senders,
// and prints each message once it is acknowledged.
func TestWriter(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		t.Skip("it is the writer of TestNothingAcknowledgedIsLost")
	}
	l := open(t, dir, vfs.Default)
	add(t, l, 1, 2)
	run := os.Getpid()
	var wait sync.WaitGroup
	for sender := range 8 {
		wait.Go(func() {
			for i := 0; ; i++ {
				stream, id := int64(1+i%2), fmt.Sprintf("%d-%d", run, i)
				s := say(t, l, stream, fmt.Sprint(sender), id)
				if s.Err != nil {
					t.Error(s.Err)
					return
				}
				// One write for each line: they are whole or not there.
				fmt.Printf("%d %d %d %s\n", stream, s.Offset, sender, id)
				if sender > 0 {
					continue
				}
				a := altered(stream, s.Offset)
				if _, err := l.Alter(a); err != nil {
					t.Error(err)
					return
				}
				fmt.Printf("deleted %d %d\n", stream, s.Offset)
			}
		})
	}
	wait.Wait()
}

// A log is killed again and again while it is written, at moments that nobody chose. What was
// acknowledged is there afterwards with its offset, offsets have no gaps, and what was sent
// again has not become a second message.
func TestNothingAcknowledgedIsLost(t *testing.T) {
	t.Parallel()
	kills := 15
	if n, err := strconv.Atoi(os.Getenv("KILLS")); err == nil {
		kills = n
	}
	dir := t.TempDir()
	acked := map[string]string{} // stream and offset → sender and id
	var deleted []string         // stream and offset
	var epoch chat.Epoch
	for round := range kills {
		for _, line := range killed(t, dir, 1+round*37%200) {
			f := strings.Fields(line)
			if f[0] == "deleted" {
				deleted = append(deleted, f[1]+" "+f[2])
				continue
			}
			acked[f[0]+" "+f[1]] = f[2] + " " + f[3]
		}
		l := open(t, dir, vfs.Default)
		if round == 0 {
			epoch = l.Epoch()
		}
		if l.Epoch() != epoch {
			t.Fatalf("the epoch was %v and is %v", epoch, l.Epoch())
		}
		check(t, l, acked)
		checkDeleted(t, l, deleted)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d messages were acknowledged before %d kills", len(acked), kills)
}

// killed runs a writer, kills it once so many lines have come, and returns all its whole lines.
func killed(t *testing.T, dir string, after int) (lines []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWriter$", "-test.count=1")
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(out)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			break // the pipe ends with the process, and what is not whole was not said
		}
		if lines = append(lines, strings.TrimSpace(line)); len(lines) == after {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || len(lines) < after {
		t.Fatalf("the writer ended by itself after %d messages, %v: %s %s", len(lines), err, strings.Join(lines, "\n"), log.Bytes())
	}
	return lines
}

// altered deletes a message, and says so in a record and in the log of who did what.
func altered(stream int64, offset uint64) *chat.Alteration {
	text := fmt.Append(nil, offset)
	return &chat.Alteration{Stream: stream, Records: map[string][]byte{"last": text, fmt.Sprint("at/", offset): text}, Delete: &offset,
		Entry: func(uint64) ([]byte, error) { return text, nil }}
}

// checkDeleted finds what was deleted deleted, in the messages, the records and the log alike.
func checkDeleted(t *testing.T, l *Log, deleted []string) {
	t.Helper()
	records := map[string]string{}
	if err := l.EachRecord(func(stream int64, name string, value []byte) error {
		records[fmt.Sprint(stream, " ", name)] = string(value)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	entries := map[string]bool{}
	for _, stream := range []int64{1, 2} {
		all, err := l.Entries(stream, 1<<63, MaxEntries)
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range all {
			if want := uint64(len(all) - 1 - i); e.Offset != want {
				t.Fatalf("line %d of the log in place of %d", e.Offset, want)
			}
			entries[fmt.Sprint(stream, " ", string(e.Bytes))] = true
		}
	}
	for _, place := range deleted {
		var stream int64
		var offset uint64
		if _, err := fmt.Sscan(place, &stream, &offset); err != nil {
			t.Fatal(err)
		}
		found, err := l.Read(stream, offset, 1)
		if err != nil || len(found) != 1 {
			t.Fatalf("got %d messages, %v", len(found), err)
		}
		m, err := chat.ParseMessage(found[0].Bytes)
		if err != nil || m.Offset != offset || !m.Deleted || m.Text != "" || records[fmt.Sprintf("%d at/%d", stream, offset)] == "" || !entries[place] {
			t.Fatalf("message %s was deleted: got %+v, %v", place, m, err)
		}
	}
}

// check finds each message that was acknowledged at its place, and none twice.
func check(t *testing.T, l *Log, acked map[string]string) {
	t.Helper()
	found := 0
	for _, stream := range []int64{1, 2} {
		all, next, err := l.Before(stream, 1<<62, chat.Limit{Messages: 1 << 30, Bytes: 1 << 40})
		if err != nil || uint64(len(all)) != next {
			t.Fatalf("got %d of %d messages, %v", len(all), next, err)
		}
		var said []string
		for i, e := range all {
			m, err := chat.ParseMessage(e.Bytes)
			if err != nil || m.Offset != uint64(i) {
				t.Fatalf("message %d has the offset %d, %v", i, m.Offset, err)
			}
			key := m.Sender + " " + m.ID
			said = append(said, key)
			if want, ok := acked[fmt.Sprintf("%d %d", stream, i)]; ok {
				if found++; want != key {
					t.Fatalf("at %d of stream %d is %q, and %q was acknowledged", i, stream, key, want)
				}
			}
		}
		slices.Sort(said)
		if once := len(slices.Compact(said)); once != len(all) {
			t.Fatalf("%d messages, of which %d are there twice", len(all), len(all)-once)
		}
		// The last that the log has, acknowledged or not, is the same when it is sent again.
		if n := len(all); n > 0 {
			m, _ := chat.ParseMessage(all[n-1].Bytes)
			must(t, say(t, l, stream, m.Sender, m.ID), m.Offset, true)
		}
	}
	if found != len(acked) {
		t.Fatalf("%d of %d acknowledged messages are there", found, len(acked))
	}
}
