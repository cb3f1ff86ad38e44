package ledger

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"

	"loadstone/system/chat"
)

// Begin is the first message that a viewer of the stream saw or was to see, and 0 if there is none.
func (l *Ledger) Begin(stream int64) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.turns { // what was acked in another epoch may be at any place
		return 0
	}
	first := uint64(math.MaxUint64)
	for _, v := range l.room(stream).viewers {
		if v.joined {
			first = min(first, v.first)
		}
	}
	if first == math.MaxUint64 {
		return 0
	}
	return first
}

// Log is a stream's log, as it was read after all viewers had left.
type Log struct {
	Epoch string
	// From is the first message that was read, the stream's Begin, and all that follow are
	// Messages, in the order in which the log has them.
	From     uint64
	Messages iter.Seq[chat.Message]
	// Due is the offset before which all was due to all viewers: others may have gone on
	// talking.
	Due uint64
	// Analysed says that viewers are to be told what the analysis has made of the log.
	Analysed bool
}

// Check compares the books of a stream with its log. It is called once for each stream, when its
// viewers have had time to see what was due to them, and have left.
func (l *Ledger) Check(stream int64, log Log) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inEpoch(log.Epoch)
	r := l.room(stream)
	stored := map[promise]kept{}
	end := log.From
	for m := range log.Messages {
		if m.Offset != end {
			l.violatef(Holed, "the log of stream %d has message %d in place of message %d", stream, m.Offset, end)
		}
		end = m.Offset + 1
		p := promise{m.Sender, m.ID}
		if first, ok := stored[p]; ok {
			l.violatef(Doubled, "message %q of %s is twice in the log of stream %d: as %d and %d", m.ID, m.Sender, stream, first.offset, m.Offset)
			continue
		}
		stored[p] = l.keep(&m)
		if sum, ok := r.seen[place{log.Epoch, m.Offset}]; ok && !sum.became(l.sum(&m)) {
			l.violatef(Invented, "what viewers saw as message %d of stream %d is not what the log has there", m.Offset, stream)
		}
	}
	for at := range r.seen {
		if at.epoch == log.Epoch && at.offset >= end {
			l.violatef(Invented, "viewers saw message %d of stream %d, and the log has %d", at.offset, stream, end)
		}
	}
	l.checkAcked(r, stored)
	l.checkTotals(r, &log, end)
	for _, v := range r.viewers {
		v.close(log.Due, end)
	}
}

// checkAcked looks for what was promised. The violations are in the order of the offsets.
func (l *Ledger) checkAcked(r *room, stored map[promise]kept) {
	byOffset := func(a, b promise) int { return cmp.Compare(r.acked[a].offset, r.acked[b].offset) }
	for _, p := range slices.SortedFunc(maps.Keys(r.acked), byOffset) {
		have, ok := stored[p]
		want := r.acked[p]
		if want.offset == unplaced {
			if !ok {
				l.violatef(Lost, "message %q of %s was acked in stream %d, and the log does not have it", p.id, p.sender, r.id)
				continue
			}
			want.offset = have.offset
		}
		switch {
		case !ok:
			l.violatef(Lost, "message %q of %s was acked as %d of stream %d, and the log does not have it", p.id, p.sender, want.offset, r.id)
			continue
		case have.offset != want.offset:
			l.violatef(Moved, "message %q of %s was acked as %d of stream %d, and the log has it as %d", p.id, p.sender, want.offset, r.id, have.offset)
		case have.text == 0:
			l.violatef(Altered, "message %q of %s, %d of stream %d, was deleted", p.id, p.sender, want.offset, r.id)
		case have.text != want.text:
			l.violatef(Altered, "message %q of %s, %d of stream %d, has not the text in the log that was acked", p.id, p.sender, want.offset, r.id)
		}
		l.count.Stored++
	}
}

// AllowSkipped finds fault with more announced skips than so many. It is called once, at the end.
func (l *Ledger) AllowSkipped(most int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count.Skipped > most {
		l.violatef(Withheld, "%d messages to a viewer were announced as skipped, and %d may be", l.count.Skipped, most)
	}
}
