package engine

import (
	"slices"
	"time"

	"loadstone/lab/load/failure"
)

// slots are the connections that the users of one event loop share where the
// plan caps them: each takes one for a request and gives it back. Who finds
// none waits in line, and that wait is in the response time.
type slots struct {
	clock   *clock
	all     []link
	waiting userList

	// free is a ring of those that nobody has, longest free first, so that
	// requests spread over the targets.
	free             []link
	first, freeCount int

	released []link // that have come back while one is handed on
	handing  bool
}

// newSlots returns slots that are all free.
func newSlots(c *clock, all []link) *slots {
	return &slots{clock: c, all: all, free: slices.Clone(all), freeCount: len(all)}
}

// acquire returns a free link, or puts u in line and returns nil.
func (s *slots) acquire(u *user) link {
	if s.freeCount == 0 {
		u.waitingSince = s.clock.now()
		s.waiting.push(u)
		return nil
	}
	l := s.free[s.first]
	s.first = (s.first + 1) % len(s.free)
	s.freeCount--
	return l
}

// release takes a link back, or hands it to the first in line. Where that fails at once it
// comes back from within: then it is handed on here, and not from there, or a line of
// which all fail would be as deep a stack.
func (s *slots) release(l link) {
	s.released = append(s.released, l)
	if s.handing {
		return
	}
	s.handing = true
	for len(s.released) > 0 {
		last := len(s.released) - 1
		l, s.released = s.released[last], s.released[:last]
		if u := s.waiting.pop(); u != nil {
			u.linked(l)
			continue
		}
		s.free[(s.first+s.freeCount)%len(s.free)] = l
		s.freeCount++
	}
	s.handing = false
}

// expire fails the requests that have waited for as long as a request may
// take. It returns when the next will have.
func (s *slots) expire(now, timeout time.Duration) (next time.Duration) {
	for u := s.waiting.first; u != nil; u = s.waiting.first {
		if due := u.waitingSince + timeout; due > now {
			return due
		}
		s.waiting.pop()
		u.sent, u.done, u.unsent = now, now, true
		u.answered(0, failure.Timeout, errNoConnection)
	}
	return never
}

// leave takes u out of the line.
func (s *slots) leave(u *user) { s.waiting.remove(u) }

// userList is a line of users, each in one line at most.
type userList struct{ first, last *user }

// push puts u at the end.
func (l *userList) push(u *user) {
	u.before, u.behind = l.last, nil
	if l.last == nil {
		l.first = u
	} else {
		l.last.behind = u
	}
	l.last = u
}

// pop takes the first away; nil if there is none.
func (l *userList) pop() *user {
	u := l.first
	if u != nil {
		l.remove(u)
	}
	return u
}

// remove takes u out, wherever it stands in this line.
func (l *userList) remove(u *user) {
	if u.before == nil {
		l.first = u.behind
	} else {
		u.before.behind = u.behind
	}
	if u.behind == nil {
		l.last = u.before
	} else {
		u.behind.before = u.before
	}
	u.before, u.behind = nil, nil
}
