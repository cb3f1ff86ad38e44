package ledger

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"loadstone/system/chat"
)

// Kept compares the log of a stream with the rows of a store beside it. Its methods are for one goroutine at a time.
type Kept struct {
	log     map[promise]*chat.Message
	rows    map[promise]map[int64]string // texts by their times, in milliseconds
	missing int
}

// NewKept expects each message of a log once.
func NewKept(log []chat.Message) *Kept {
	k := &Kept{log: make(map[promise]*chat.Message, len(log)), rows: map[promise]map[int64]string{}}
	for i := range log {
		k.log[promise{log[i].Sender, log[i].ID}] = &log[i]
	}
	k.missing = len(k.log)
	return k
}

// Read notes a row. One that was read before is no second one.
func (k *Kept) Read(r *chat.Raw) {
	p := promise{r.Sender, r.ID}
	if k.log[p] == nil {
		return // from before the log was looked at, or after
	}
	if k.rows[p] == nil {
		k.rows[p] = map[int64]string{}
		k.missing--
	}
	k.rows[p][r.At] = r.Text
}

// Missing is the time of the oldest message that no row was read of, in milliseconds; ok is false if there is none.
func (k *Kept) Missing() (from int64, ok bool) {
	if k.missing == 0 {
		return 0, false
	}
	from = math.MaxInt64
	for p, m := range k.log {
		if k.rows[p] == nil {
			from = min(from, m.At)
		}
	}
	return from, true
}

// CheckKept compares what was read with the log: each message has one row, with its text. The violations are in the
// order of the offsets.
func (l *Ledger) CheckKept(stream int64, k *Kept) {
	l.mu.Lock()
	defer l.mu.Unlock()
	byOffset := func(a, b *chat.Message) int { return cmp.Compare(a.Offset, b.Offset) }
	for _, m := range slices.SortedFunc(maps.Values(k.log), byOffset) {
		rows := k.rows[promise{m.Sender, m.ID}]
		l.count.Logged++
		if len(rows) == 0 {
			l.violatef(Lost, "message %q of %s, %d of stream %d, is in the log, and is not kept", m.ID, m.Sender, m.Offset, stream)
			continue
		}
		l.count.Kept++
		if len(rows) > 1 {
			l.violatef(Doubled, "message %q of %s, %d of stream %d, is kept %d times", m.ID, m.Sender, m.Offset, stream, len(rows))
		}
		for _, text := range rows {
			if text != m.Text {
				l.violatef(Altered, "message %q of %s, %d of stream %d, is kept with another text", m.ID, m.Sender, m.Offset, stream)
				break
			}
		}
	}
}
