package engine

import "time"

// timer is something to be done at a time. It is told the time for which it was
// set, not when it is called: who is late must not move what comes after.
type timer struct {
	at time.Duration
	do func(at time.Duration)
}

// timers are those of one event loop, a binary heap by time. Timers are not
// taken back: what they do checks whether it is still wanted.
type timers struct{ heap []timer }

// add has do called at a time, by the loop.
func (t *timers) add(at time.Duration, do func(at time.Duration)) {
	t.heap = append(t.heap, timer{at: at, do: do})
	for i := len(t.heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if t.heap[parent].at <= t.heap[i].at {
			return
		}
		t.heap[parent], t.heap[i] = t.heap[i], t.heap[parent]
		i = parent
	}
}

// next is when the first timer is due, or never.
func (t *timers) next() time.Duration {
	if len(t.heap) == 0 {
		return never
	}
	return t.heap[0].at
}

// fire does what is due by now.
func (t *timers) fire(now time.Duration) {
	for len(t.heap) > 0 && t.heap[0].at <= now {
		first := t.heap[0]
		last := len(t.heap) - 1
		t.heap[0], t.heap[last] = t.heap[last], timer{}
		t.heap = t.heap[:last]
		t.sink()
		first.do(first.at)
	}
}

// sink moves the first to its place.
func (t *timers) sink() {
	for i := 0; ; {
		least := 2*i + 1
		if least >= len(t.heap) {
			return
		}
		if right := least + 1; right < len(t.heap) && t.heap[right].at < t.heap[least].at {
			least = right
		}
		if t.heap[i].at <= t.heap[least].at {
			return
		}
		t.heap[i], t.heap[least] = t.heap[least], t.heap[i]
		i = least
	}
}

// never is a time that does not come.
const never = time.Duration(1<<63 - 1)
