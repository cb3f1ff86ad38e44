package load

import (
	"time"

	"loadstone/lab/load/failure"
)

// slots are the connections that the users of one event loop share where the
// plan caps them: each takes one for a request and gives it back. Who finds
// none waits in line, and that wait is in the response time.
type slots struct {
	clock *clock
	all   []link
	free  []link // longest free first, so that requests spread over the targets
	line  userList
}

// take returns a free link, or puts u in line and returns nil.
func (s *slots) take(u *user) link {
	if len(s.free) == 0 {
		u.askedAt = s.clock.now()
		s.line.push(u)
		return nil
	}
	l := s.free[0]
	copy(s.free, s.free[1:])
	s.free = s.free[:len(s.free)-1]
	return l
}

// give takes a link back, or hands it to the first in line.
func (s *slots) give(l link) {
	if u := s.line.pop(); u != nil {
		u.linked(l)
		return
	}
	s.free = append(s.free, l)
}

// expire fails the requests that have waited for as long as a request may
// take. It returns when the next will have.
func (s *slots) expire(now, timeout time.Duration) (next time.Duration) {
	for u := s.line.first; u != nil; u = s.line.first {
		if due := u.askedAt + timeout; due > now {
			return due
		}
		s.line.pop()
		u.sent, u.done = now, now
		u.answered(0, failure.Timeout, errNoConnection)
	}
	return never
}

// leave takes u out of the line.
func (s *slots) leave(u *user) { s.line.remove(u) }

// userList is a line of users, each in one line at most.
type userList struct{ first, last *user }

// push puts u at the end.
func (l *userList) push(u *user) {
	u.behind = nil
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
	if u == nil {
		return nil
	}
	l.first, u.behind = u.behind, nil
	if l.first == nil {
		l.last = nil
	}
	return u
}

// remove takes u out, wherever it stands.
func (l *userList) remove(u *user) {
	var before *user
	for at := l.first; at != nil; before, at = at, at.behind {
		if at != u {
			continue
		}
		if before == nil {
			l.first = u.behind
		} else {
			before.behind = u.behind
		}
		if l.last == u {
			l.last = before
		}
		u.behind = nil
		return
	}
}
