package replay

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"loadstone/system/chat"
	"loadstone/system/chat/analysis"
)

// memory is a log of some messages, with the spans that an analysis would note.
type memory struct {
	messages []chat.Message
	spans    []analysis.Span
	reads    int
}

func (l *memory) Notes(_ int64, r chat.NoteRange) (found []chat.Note, err error) {
	for i := len(l.spans) - 1; i >= 0 && len(found) < r.Most; i-- {
		if s := l.spans[i]; uint64(s.At) < r.To {
			value, err := json.Marshal(s)
			if err != nil {
				return nil, err
			}
			found = append(found, chat.Note{Number: uint64(s.At), Value: value})
		}
	}
	return found, nil
}

func (l *memory) Read(_ int64, from uint64, most int) (found []chat.Encoded, err error) {
	for o := from; o < uint64(len(l.messages)) && len(found) < most; o++ {
		found = append(found, chat.Encoded{Offset: o, Bytes: l.messages[o].Append(nil)})
	}
	l.reads += len(found)
	return found, nil
}

// show has a message every second, the clock going back by five after a hundred. The third is deleted.
func show(noted bool) (*memory, chat.Stream) {
	s := chat.Stream{ID: 1, Started: time.UnixMilli(50_000)}
	l := &memory{}
	t := &analysis.Timeline{}
	for i := range 1000 {
		at := int64(i) * 1000
		if i >= 100 {
			at -= 5000
		}
		m := chat.Message{Offset: uint64(i), At: 50_000 + at, Sender: "u", Name: "n", ID: "i", Text: fmt.Sprint("message ", i)}
		t.Add(at, m.Offset, analysis.Praise)
		if n := len(l.spans); noted && (n == 0 || l.spans[n-1].At != t.Now.At) {
			l.spans = append(l.spans, t.Now)
		}
		if i == 3 {
			m.Delete()
		}
		l.messages = append(l.messages, m)
	}
	return l, s
}

func TestReplayIsInOrderAndWhole(t *testing.T) {
	t.Parallel()
	l, s := show(true)
	r := New(l, s, Place{})
	var offsets []uint64
	last := int64(0)
	for {
		page, err := r.Next(64)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, m := range page {
			offsets = append(offsets, m.Offset)
			if m.Video < last {
				t.Fatalf("message %d goes back to %d", m.Offset, m.Video)
			}
			last = m.Video
		}
		r = New(l, s, r.Place()) // as who asks for a page after the other
	}
	if len(offsets) != 999 || offsets[3] != 4 {
		t.Errorf("got %d messages, and %d after the one that was deleted", len(offsets), offsets[3])
	}
}

// With spans or without, a place is the first message of a time or later.
func TestFind(t *testing.T) {
	t.Parallel()
	for _, noted := range []bool{true, false} {
		l, s := show(noted)
		for video, want := range map[int64]uint64{-1: 0, 0: 0, 1: 1, 9999: 10, 10_000: 10, 98_500: 99, 99_000: 99, 99_001: 105, 100_000: 105, 900_000: 905, 994_000: 999, 995_000: 1000} {
			r := New(l, s, Place{})
			l.reads = 0
			if err := r.Find(video); err != nil {
				t.Fatal(err)
			}
			if got := r.Place().Offset; got != want {
				t.Errorf("%d (with spans: %v): got %d, want %d", video, noted, got, want)
			}
			if noted && l.reads > 2*pageSize {
				t.Errorf("%d: %d messages were read", video, l.reads)
			}
			page, err := r.Next(1)
			if err != nil || want < 1000 && (len(page) != 1 || page[0].Video < video) {
				t.Errorf("%d: got %+v, %v", video, page, err)
			}
		}
	}
}

func TestWhatCannotBeReadIsLeftOut(t *testing.T) {
	t.Parallel()
	s := chat.Stream{ID: 1, Started: time.UnixMilli(0)}
	page, err := New(broken{}, s, Place{}).Next(10)
	if err != nil || len(page) != 0 {
		t.Errorf("got %+v, %v", page, err)
	}
}

// broken is a log of one message that cannot be read.
type broken struct{}

func (broken) Notes(int64, chat.NoteRange) ([]chat.Note, error) { return nil, nil }
func (broken) Read(_ int64, from uint64, _ int) ([]chat.Encoded, error) {
	if from > 0 {
		return nil, nil
	}
	return []chat.Encoded{{Bytes: []byte("{")}}, nil
}
