package logstore

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"loadstone/system/chat"
)

// However the machine's clock is set, a show's goes on as time does.
func TestAShowsTimeGoesOn(t *testing.T) {
	t.Parallel()
	start := time.UnixMilli(1_800_000_000_000)
	wall, elapsed := start, 5*time.Hour
	dir := t.TempDir()
	reopen := func() *Log {
		t.Helper()
		c := DefaultConfig()
		c.Dir, c.Registerer = dir, prometheus.NewRegistry()
		c.Now, c.Elapsed = func() time.Time { return wall }, func() time.Duration { return elapsed }
		l, err := openOn(t.Context(), vfs.Default, c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	l := reopen()
	want := func(what string, id int64, time time.Time) {
		t.Helper()
		if got := l.Time(id); !got.Equal(time) {
			t.Errorf("%s: got %v, want %v", what, got, time)
		}
	}
	add := func(id int64) {
		t.Helper()
		if err := l.AddStream(chat.Stream{ID: id, Title: "x", Started: wall}); err != nil {
			t.Fatal(err)
		}
	}
	add(1)
	want("at its start", 1, start)
	elapsed += time.Minute
	wall = wall.Add(time.Hour)
	want("a clock that was set ahead", 1, start.Add(time.Minute))
	add(2)
	want("a show that began then", 2, start.Add(time.Hour))
	elapsed += time.Minute
	wall = start.Add(-time.Hour)
	want("a clock that was set back", 1, start.Add(2*time.Minute))
	want("the other", 2, start.Add(time.Hour+time.Minute))
	want("a show that there is not", 9, wall)
	done := make(chan error, 1)
	m := chat.Message{At: l.Time(1).UnixMilli(), Sender: "u", Name: "n", ID: "i", Text: "hello"}
	if err := l.Say(&chat.Draft{Stream: 1, Message: m, Done: func(s *chat.Said) { done <- s.Err }}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	elapsed = 0
	l = reopen()
	want("a start while the clock is behind", 1, start.Add(2*time.Minute))
	want("a show in which nothing was said", 2, start.Add(time.Hour))
	elapsed = time.Minute
	want("after it", 1, start.Add(3*time.Minute))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	wall = start.Add(2 * time.Hour)
	l = reopen()
	want("a start later", 1, wall)
}
