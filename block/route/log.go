package route

import (
	"log/slog"
	"sync"
	"time"
)

// LogEvery is the shortest time between two lines of an ErrorLog. What is down fails
// every request; the lines would drown all others.
const LogEvery = 10 * time.Second

// ErrorLog logs one kind of error, at most once in LogEvery, with the number of those
// that were left out. It is safe for concurrent use.
type ErrorLog struct {
	logger  *slog.Logger
	message string

	mu      sync.Mutex
	next    time.Time
	dropped int
}

// NewErrorLog returns one that logs the message.
func NewErrorLog(logger *slog.Logger, message string) *ErrorLog {
	return &ErrorLog{logger: logger, message: message}
}

// Log logs the error, or counts it.
func (l *ErrorLog) Log(args ...any) {
	if dropped, ok := l.pass(time.Now()); ok {
		l.logger.Error(l.message, append(args, "dropped", dropped)...)
	}
}

// pass reports whether an error at now is logged, and how many were not since the last
// one that was.
func (l *ErrorLog) pass(now time.Time) (dropped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.next) {
		l.dropped++
		return 0, false
	}
	dropped, l.dropped = l.dropped, 0
	l.next = now.Add(LogEvery)
	return dropped, true
}
