package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/websocket"
	"loadstone/system/chat"
	"loadstone/system/chat/broadcast"
)

// watched are viewers of which a test is told what they are.
type watched struct {
	next    func() uint64
	publish func(offset uint64)
	empty   func()
}

func (w *watched) Publish(_ int64, offset uint64, _ []byte) { w.publish(offset) }
func (w *watched) Next(int64) (next uint64, open bool)      { return w.next(), true }
func (w *watched) Skip(int64, uint64)                       {}
func (w *watched) Rooms() []int64                           { return nil }

func (w *watched) Empty(context.Context, websocket.Code, string) bool {
	w.empty()
	return true
}

const before, now chat.Epoch = 1, 2

// listening is a server that hears, in an epoch.
func listening(w *watched, epoch chat.Epoch) *hearing {
	h := &hearing{&Log{metrics: newMetrics(prometheus.NewRegistry()), back: make(chan time.Time, 1)}, w, map[int64]bool{}}
	h.epoch.Store(uint64(epoch))
	return h
}

// Messages of the epoch before may wait when the server has turned to another one: it does not turn back, and nobody is
// sent away once more.
func TestAnEpochThatIsOverDoesNotComeBack(t *testing.T) {
	t.Parallel()
	var published []uint64
	h := listening(&watched{
		next: func() uint64 { return 7 }, publish: func(offset uint64) { published = append(published, offset) },
		empty: func() { t.Error("all viewers are sent away") },
	}, now)
	for _, told := range []broadcast.Told{{Stream: 1, Epoch: before, Offset: 7}, {Stream: 1, Epoch: now, Offset: 7}, {Stream: 1, Epoch: before, Offset: 8}} {
		h.heard(t.Context(), told)
	}
	if h.Epoch() != now || len(published) != 1 || published[0] != 7 {
		t.Errorf("the epoch is %v, and %d were published, want %v and 7", h.Epoch(), published, now)
	}
}

// Between the look at a message's epoch and its place in the room the server may want to turn: the message is shown before
// that, or not at all. In a room of the epoch after it the place may be anywhere.
func TestNoMessageIsShownInAnotherEpoch(t *testing.T) {
	t.Parallel()
	turned := make(chan struct{})
	w := &watched{empty: func() {}}
	h := listening(w, before)
	w.next = func() uint64 {
		go func() {
			defer close(turned)
			h.turnTo(t.Context(), now, w)
		}()
		select {
		case <-turned:
		case <-time.After(100 * time.Millisecond): // it waits, as it is to
		}
		return 7
	}
	w.publish = func(offset uint64) {
		if h.Epoch() != before {
			t.Errorf("message %d of epoch %v is shown in epoch %v", offset, before, h.Epoch())
		}
	}
	h.heard(t.Context(), broadcast.Told{Stream: 1, Epoch: before, Offset: 7})
	<-turned
	if h.Epoch() != now {
		t.Errorf("the epoch is %v, want %v", h.Epoch(), now)
	}
}
