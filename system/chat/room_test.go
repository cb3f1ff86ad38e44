package chat

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

// told is what a viewer was told by frames: messages in order, and how many were left out.
type told struct {
	messages []Message
	skipped  uint64
}

// take reads whole frames as a server sends them, and fails the test if they are none.
func (s *told) take(t *testing.T, frames []byte) {
	t.Helper()
	for len(frames) > 0 {
		length, head := int(frames[1]), 2
		switch length {
		case 126:
			length, head = int(binary.BigEndian.Uint16(frames[2:])), 4
		case 127:
			length, head = int(binary.BigEndian.Uint64(frames[2:])), 10
		}
		if frames[0] != 0x81 || len(frames) < head+length {
			t.Fatalf("no whole frame of text: %.80q", frames)
		}
		var form struct {
			Type     string    `json:"type"`
			Messages []Message `json:"messages"`
			Count    uint64    `json:"count"`
		}
		if err := json.Unmarshal(frames[head:head+length], &form); err != nil {
			t.Fatalf("%v: %.200q", err, frames[head:head+length])
		}
		switch {
		case form.Type == "messages" && len(form.Messages) > 0:
			s.messages = append(s.messages, form.Messages...)
		case form.Type == "skipped" && form.Count > 0:
			s.skipped += form.Count
		default:
			t.Fatalf("a frame says nothing: %s", frames[head:head+length])
		}
		frames = frames[head+length:]
	}
}

func testRoom() RoomConfig { return DefaultRoomConfig() }

func encoded(offset uint64, size int) []byte {
	m := Message{Offset: offset, Sender: "g", Name: "Noor", ID: "x", Text: strings.Repeat("x", size)}
	return m.Append(nil)
}

// viewer is a cursor with what it has seen.
type viewer struct {
	cursor, began uint64
	seen, skipped uint64
}

// read gives the viewer a frame, which must continue where it was.
func (v *viewer) read(t *testing.T, r *Room, f Frame) {
	t.Helper()
	var s told
	s.take(t, f.Bytes)
	if f.From != v.cursor || f.Skipped != s.skipped {
		t.Fatalf("a frame from %d with %d skipped, which says %d; the viewer is at %d", f.From, f.Skipped, s.skipped, v.cursor)
	}
	expect := f.From + f.Skipped
	size := 0
	for _, m := range s.messages {
		if m.Offset != expect {
			t.Fatalf("message %d in place of %d", m.Offset, expect)
		}
		expect++
		size += len(m.Append(nil)) + 1
	}
	if f.To != expect || len(s.messages) > 1 && size > r.cfg.Frame {
		t.Fatalf("a frame of %d bytes to %d, and its last message is %d", size, f.To, int64(expect)-1)
	}
	v.cursor, v.seen, v.skipped = f.To, v.seen+uint64(len(s.messages)), v.skipped+s.skipped
}

// Whoever reads, as often or as seldom as it likes, gets every message once and in order, or
// is told that it was left out.
func TestEveryMessageIsSeenOnceOrSkipped(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 0))
			first := random.Uint64N(3) * 1000
			r := NewRoom(testRoom(), first)
			viewers := make([]viewer, 5)
			for i := range viewers {
				viewers[i] = viewer{cursor: first, began: first}
			}
			next := first
			for range 2000 {
				for range random.IntN(4) {
					size := random.IntN(300)
					if random.IntN(20) == 0 {
						size = random.IntN(3500)
					}
					if !r.Append(next, encoded(next, size)) {
						t.Fatalf("message %d was not taken", next)
					}
					next++
				}
				// The higher its number, the more seldom a viewer reads.
				if i := random.IntN(len(viewers)); random.IntN(1+i*i*20) == 0 {
					v := &viewers[i]
					if random.IntN(2) == 0 {
						if f := r.Newest(v.cursor); f != nil {
							v.read(t, r, f.Frame)
						}
					} else {
						v.read(t, r, r.Read(nil, v.cursor, next-min(random.Uint64N(3), next-v.cursor)))
					}
				}
			}
			for i := range viewers {
				for v := &viewers[i]; v.cursor < next; {
					v.read(t, r, r.Read(nil, v.cursor, next))
				}
				if v := viewers[i]; v.seen+v.skipped != next-first {
					t.Errorf("viewer %d saw %d and skipped %d of %d", i, v.seen, v.skipped, next-first)
				}
			}
			if viewers[0].skipped > 0 || viewers[4].skipped == 0 {
				t.Errorf("who reads always skipped %d, who reads seldom %d", viewers[0].skipped, viewers[4].skipped)
			}
			if len(r.data) > r.cfg.Bytes {
				t.Errorf("the room keeps %d bytes, want %d at most", len(r.data), r.cfg.Bytes)
			}
		})
	}
}

func TestTheNewestFrameIsMadeOnce(t *testing.T) {
	r := NewRoom(testRoom(), 0)
	if f := r.Newest(0); f != nil {
		t.Errorf("an empty room: got %+v", f)
	}
	r.Append(0, encoded(0, 10))
	r.Append(1, encoded(1, 10))
	f := r.Newest(0)
	if f == nil || f.To != 2 || f != r.Newest(0) {
		t.Fatalf("got %+v, and another one the second time", f)
	}
	r.Append(2, encoded(2, 10))
	if r.Newest(0) != f {
		t.Error("who comes a little later gets another frame")
	}
	if g := r.Newest(2); g == nil || g.From != 2 || g.To != 3 {
		t.Errorf("the next: got %+v", g)
	}
	if n := testing.AllocsPerRun(100, func() { r.Newest(2) }); n > 0 {
		t.Errorf("the same again allocates %v times", n)
	}
}

// A frame is compressed once for all, and only where that makes it shorter and nobody has to be told what is
// left out.
func TestTheNewestFrameIsCompressedOnce(t *testing.T) {
	t.Parallel()
	r := NewRoom(testRoom(), 0)
	r.Append(0, encoded(0, 10))
	if f := r.Newest(0); !bytes.Equal(f.Deflated(), f.Bytes) {
		t.Error("a short frame is compressed")
	}
	for o := uint64(1); o < 20; o++ {
		r.Append(o, encoded(o, 60))
	}
	f, g := r.Newest(1), r.Newest(1)
	got := f.Deflated()
	if &got[0] != &g.Deflated()[0] || len(got) > len(f.Bytes)/2 {
		t.Fatalf("got %d bytes of %d, or others the second time", len(got), len(f.Bytes))
	}
	const header, last = 4, "\x00\x00\xff\xff\x01\x00\x00\xff\xff" // RFC 7692, 7.2.2, and the end of a stream
	text, err := io.ReadAll(flate.NewReader(io.MultiReader(bytes.NewReader(got[header:]), strings.NewReader(last))))
	if err != nil || got[0] != 0xc1 || !bytes.Equal(text, f.Bytes[header:]) {
		t.Errorf("got %x... %.100q, %v, want %.100q", got[:header], text, err, f.Bytes[header:])
	}
	for o := uint64(20); o < 2000; o++ {
		r.Append(o, encoded(o, 60))
	}
	if f := r.Newest(2); f.Skipped == 0 || !bytes.Equal(f.Deflated(), f.Bytes) {
		t.Errorf("with %d left out: it is compressed, and so is what says so", f.Skipped)
	}
}

func TestWhatWasAppendedIsLeftOut(t *testing.T) {
	t.Parallel()
	r := NewRoom(testRoom(), 5)
	if r.Append(4, encoded(4, 1)) || !r.Append(5, encoded(5, 1)) || r.Append(5, encoded(5, 1)) || r.Next() != 6 {
		t.Errorf("the next is %d, want 6", r.Next())
	}
	defer func() {
		if recover() == nil {
			t.Error("a gap was taken")
		}
	}()
	r.Append(7, encoded(7, 1))
}

// A message that is deleted is in no frame that is made after it, wherever it lies in the ring.
func TestWhatIsRedactedIsNotRead(t *testing.T) {
	t.Parallel()
	c := testRoom()
	c.Frame = c.Bytes // all in one
	r := NewRoom(c, 0)
	messages := make([]Message, 0, 700)
	for o := range uint64(cap(messages)) {
		m := Message{Offset: o, Sender: "g", Name: "n", ID: "x", Text: strings.Repeat("x", 1+int(o%300))}
		messages = append(messages, m)
		r.Append(o, m.Append(nil))
	}
	oldest := r.Read(nil, 0, 1<<63).Skipped
	r.cfg.Resume = len(messages)
	for _, from := range []uint64{0, r.oldest, r.next - 1} {
		r.Newest(from) // what is shared may not stay so
	}
	if oldest == 0 || r.Redact(r.oldest-1, nil) || r.Redact(r.next, nil) {
		t.Error("what the room does not have was redacted")
	}
	for o := r.oldest; o < r.next; o += 3 {
		m := messages[o]
		m.Delete()
		if !r.Redact(o, m.Append(nil)) {
			t.Fatalf("message %d was not there", o)
		}
	}
	var got told
	got.take(t, r.Newest(r.oldest).Bytes)
	for i, m := range got.messages {
		if deleted := i%3 == 0; m.Offset != r.oldest+uint64(i) || m.Deleted != deleted || (m.Text == "") != deleted {
			t.Fatalf("message %d: got %+v", i, m)
		}
	}
	if want := int(r.next - r.oldest); len(got.messages) != want {
		t.Errorf("got %d messages, want %d", len(got.messages), want)
	}
	defer func() {
		if recover() == nil {
			t.Error("a longer message was taken")
		}
	}()
	r.Redact(r.next-1, make([]byte, MaxMessage))
}

func TestWhoJoinsSeesTheNewest(t *testing.T) {
	t.Parallel()
	r := NewRoom(testRoom(), 0)
	if got := r.Recent(); got != 0 {
		t.Errorf("an empty room: got %d", got)
	}
	for o := range uint64(60) {
		r.Append(o, encoded(o, 100))
	}
	if got := r.Recent(); got != 10 {
		t.Errorf("got %d, want the last %d", got, r.cfg.Resume)
	}
}

func TestAQuietRoomIsSmall(t *testing.T) {
	t.Parallel()
	r := NewRoom(testRoom(), 0)
	for o := range uint64(5) {
		r.Append(o, encoded(o, 20))
	}
	if got := len(r.data) + 8*len(r.starts); got > 2<<10 {
		t.Errorf("five messages take %d bytes", got)
	}
}

func BenchmarkAppendAndFrame(b *testing.B) {
	r := NewRoom(testRoom(), 0)
	message := encoded(0, 60)
	b.ReportAllocs()
	next := uint64(0)
	for b.Loop() {
		r.Append(next, message)
		r.Newest(next)
		next++
	}
}
