package accesslog

// order holds the requests of the last seconds by their time.
type order struct {
	most, mostBytes int // what may be held, in requests and in bytes of targets

	held            []*second // the oldest first
	requests, bytes int       // in held
	newest          int64     // the newest second there was
	given           int64     // the newest that was taken out
	any, taken      bool      // whether there is a newest, a given
	free            []*second // buffers to use again
}

// second is the requests of one second in the order of their lines.
type second struct {
	at       int64 // by the Unix clock
	requests []held
	targets  []byte // one after the other
}

// held is a request that waits for its turn.
type held struct {
	end  uint32 // where its target ends in those of its second
	head bool   // HEAD, not GET
}

// batch is a second that was taken out.
type batch struct {
	second   int64
	requests []held
	text     string // the targets, one after the other
	buffer   *second
}

// empty says whether nothing is held.
func (o *order) empty() bool { return len(o.held) == 0 }

// due says whether the oldest second is to be taken out before a line of the
// time at is placed: no line may still belong to it, or there is no room.
func (o *order) due(at int64) bool {
	switch {
	case o.empty():
		return false
	case at > o.held[0].at+disorder:
		return true
	case o.requests < o.most && o.bytes < o.mostBytes:
		return false
	default:
		return len(o.held) > 1 || at != o.held[0].at
	}
}

// tooOld says whether a line's time is over.
func (o *order) tooOld(at int64) bool {
	return o.any && at < o.newest-disorder || o.taken && at <= o.given
}

// add puts a request in its place. It is false if there is no room.
func (o *order) add(r *request) bool {
	if o.requests >= o.most || o.bytes >= o.mostBytes {
		return false
	}
	if !o.any || r.second > o.newest {
		o.newest, o.any = r.second, true
	}
	s := o.of(r.second)
	s.targets = append(s.targets, r.target...)
	s.requests = append(s.requests, held{end: uint32(len(s.targets)), head: r.head})
	o.requests++
	o.bytes += len(r.target)
	return true
}

// of returns the second of a time, a new one if it is not held. There are
// disorder + 1 of them at most, and the newest is nearly always meant.
func (o *order) of(at int64) *second {
	i := len(o.held)
	for i > 0 && o.held[i-1].at > at {
		i--
	}
	if i > 0 && o.held[i-1].at == at {
		return o.held[i-1]
	}
	s := &second{}
	if last := len(o.free) - 1; last >= 0 {
		s, o.free = o.free[last], o.free[:last]
	}
	s.at, s.requests, s.targets = at, s.requests[:0], s.targets[:0]
	o.held = append(o.held, nil)
	copy(o.held[i+1:], o.held[i:])
	o.held[i] = s
	return s
}

// take takes the oldest second out, which there must be. done is the batch that
// was taken before and is not used any more.
func (o *order) take(done batch) batch {
	const most = 4 << 20 // a larger buffer, of one burst, is not worth keeping
	if done.buffer != nil && cap(done.buffer.targets) <= most {
		o.free = append(o.free, done.buffer)
	}
	s := o.held[0]
	copy(o.held, o.held[1:])
	o.held = o.held[:len(o.held)-1]
	o.requests -= len(s.requests)
	o.bytes -= len(s.targets)
	o.given, o.taken = s.at, true
	return batch{second: s.at, requests: s.requests, text: string(s.targets), buffer: s}
}
