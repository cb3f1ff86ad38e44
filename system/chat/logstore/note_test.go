package logstore

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"loadstone/system/chat"
)

func TestNotes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, dir, vfs.Default)
	var notes []chat.Note
	for i := range uint64(10) {
		notes = append(notes, chat.Note{Topic: chat.NoteSpan, Number: i << 40, Value: fmt.Append(nil, i)})
	}
	err := errors.Join(l.StoreNotes(1, notes), l.StoreNotes(1, []chat.Note{{Topic: chat.NoteState, Value: []byte("a")}}),
		l.StoreNotes(1, []chat.Note{{Topic: chat.NoteState, Value: []byte("b")}}), l.StoreNotes(2, notes[:1]),
		l.StoreNotes(1, []chat.Note{{Topic: chat.NoteSpan, Number: 99, Value: []byte("taken away")}}),
		l.StoreNotes(1, []chat.Note{{Topic: chat.NoteSpan, Number: 99}, {Topic: chat.NoteSpan, Number: 0}, notes[0]}), l.Close())
	if err != nil {
		t.Fatal(err)
	}
	l = open(t, dir, vfs.Default)
	got := func(stream int64, r chat.NoteRange) string {
		t.Helper()
		var all []byte
		found, err := l.Notes(stream, r)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range found {
			if n.Topic != r.Topic || r.Topic == chat.NoteSpan && string(n.Value) != fmt.Sprint(n.Number>>40) {
				t.Errorf("got %+v", n)
			}
			all = append(all, n.Value...)
		}
		return string(all)
	}
	const end = math.MaxUint64
	for r, want := range map[chat.NoteRange]string{
		{Topic: chat.NoteSpan, To: end, Most: 99}:                               "0123456789",
		{Topic: chat.NoteSpan, To: end, Most: 3}:                                "012",
		{Topic: chat.NoteSpan, To: end, Most: 3, Newest: true}:                  "987",
		{Topic: chat.NoteSpan, From: 2 << 40, To: 5 << 40, Most: 99}:            "234",
		{Topic: chat.NoteSpan, To: 5<<40 + 1, Most: 1, Newest: true}:            "5",
		{Topic: chat.NoteState, To: 1, Most: 1}:                                 "b",
		{Topic: chat.NoteSummary, To: end, Most: 99}:                            "",
		{Topic: chat.NoteSpan, From: 5 << 40, To: 5 << 40, Most: 99}:            "",
		{Topic: chat.NoteSpan, From: 8<<40 + 1, To: end, Most: 9, Newest: true}: "9",
	} {
		if all := got(1, r); all != want {
			t.Errorf("%+v: got %q, want %q", r, all, want)
		}
	}
	if all := got(2, chat.NoteRange{Topic: chat.NoteSpan, To: end, Most: 99}); all != "0" {
		t.Errorf("another stream: got %q", all)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.StoreNotes(1, notes); !errors.Is(err, chat.ErrUnavailable) {
		t.Errorf("after the end: got %v", err)
	}
}

func TestReadIsInOrderAndBounded(t *testing.T) {
	t.Parallel()
	l := open(t, t.TempDir(), vfs.Default)
	if err := l.AddStreams([]chat.Stream{{ID: 1}, {ID: 2}}); err != nil {
		t.Fatal(err)
	}
	const messages = 20
	done := make(chan error, messages)
	for i := range messages {
		m := chat.Message{Sender: "u", Name: "n", ID: fmt.Sprint(i), Text: "t"}
		if err := l.Say(&chat.Draft{Stream: 1, Message: m, Done: func(s *chat.Said) { done <- s.Err }}); err != nil {
			t.Fatal(err)
		}
	}
	for range messages {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range []struct{ from, most, want int }{{0, 100, 20}, {0, 5, 5}, {17, 5, 3}, {20, 5, 0}, {99, 5, 0}} {
		found, err := l.Read(1, uint64(r.from), r.most)
		if err != nil || len(found) != r.want || len(found) > 0 && found[0].Offset != uint64(r.from) {
			t.Errorf("%+v: got %d, %v", r, len(found), err)
		}
	}
	if found, err := l.Read(2, 0, 9); err != nil || len(found) != 0 || l.Length(1) != messages || l.Length(2)+l.Length(3) != 0 {
		t.Errorf("of a stream without messages: got %d, %v", len(found), err)
	}
}
