package ledger

// Totals is what the analysis says of a stream: what it has made of the messages before Next.
type Totals struct {
	Next uint64
	// Analysed have a label, Deleted were taken back before, and Dead are dead letters.
	Analysed, Deleted, Dead uint64
}

// Analysed notes totals. Of several the last is judged: a viewer may be told late.
func (l *Ledger) Analysed(stream int64, t Totals) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sum := t.Analysed + t.Deleted + t.Dead; sum != t.Next {
		l.violatef(Miscounted, "the analysis of stream %d has come to message %d, and counts %d: %d analysed, %d deleted and %d dead letters",
			stream, t.Next, sum, t.Analysed, t.Deleted, t.Dead)
	}
	if r := l.room(stream); r.totals == nil || r.totals.Next < t.Next {
		r.totals = &t
	}
}

// Totals are the last of a stream; told is false if there were none: then nothing analyses it, or
// nobody says so.
func (l *Ledger) Totals(stream int64) (last Totals, told bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.room(stream).totals; t != nil {
		return *t, true
	}
	return Totals{}, false
}

// checkTotals compares the analysis with what was due and with the length of the log.
func (l *Ledger) checkTotals(r *room, log *Log, end uint64) {
	if r.totals == nil {
		if log.Analysed {
			l.violatef(Withheld, "the analysis of stream %d: nobody was told anything of it", r.id)
		}
		return
	}
	switch next := r.totals.Next; {
	case next < log.Due:
		l.violatef(Withheld, "%v of stream %d: neither analysed nor dead letters", span{next, log.Due}, r.id)
	case next > end:
		l.violatef(Invented, "the analysis of stream %d has come to message %d, and the log has %d", r.id, next, end)
	}
	l.count.Analysed += int64(r.totals.Analysed + r.totals.Deleted)
	l.count.Dead += int64(r.totals.Dead)
}
