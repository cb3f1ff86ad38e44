package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/accesslog"
)

// replaySchedule is the schedule of a replay: what an access log has, at its times.
// A goroutine reads ahead, because a line may have to wait for the disk.
type replaySchedule struct {
	start   load.Arrival // its time is when the scenario starts
	entries <-chan accesslog.Entry
	head    load.Arrival
	ended   bool
}

// readAhead is how many of a log's requests are kept ready: those of a tenth of
// a second at 40,000 requests a second.
const readAhead = 4096

// logReader reads a log into a channel until it ends or stop is closed.
type logReader struct {
	log     *accesslog.Log
	entries chan accesslog.Entry
	stop    chan struct{}
	done    sync.WaitGroup
	err     error // after done: why it ended early
}

// openLog starts to read a scenario's log, and returns its schedule.
func (r *run) openLog(s *load.Scenario) (schedule, error) {
	log, err := accesslog.Open(accesslog.Config{Path: s.Log.Path, Speed: s.Log.Speed})
	if err != nil {
		return nil, err
	}
	reader := &logReader{log: log, entries: make(chan accesslog.Entry, readAhead), stop: make(chan struct{})}
	reader.done.Go(reader.read)
	r.logs = append(r.logs, reader)
	l := &replaySchedule{start: load.Arrival{At: s.StartTime}, entries: reader.entries}
	l.Advance()
	return l, nil
}

// read is the goroutine.
func (r *logReader) read() {
	defer close(r.entries)
	for {
		e, err := r.log.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				r.err = fmt.Errorf("replay: %w", err)
			}
			return
		}
		select {
		case r.entries <- e:
		case <-r.stop:
			return
		}
	}
}

// close ends the reading.
func (r *logReader) close() error {
	close(r.stop)
	r.done.Wait()
	return errors.Join(r.err, r.log.Close())
}

// Peek returns the next arrival, or false when there is none.
func (l *replaySchedule) Peek() (load.Arrival, bool) { return l.head, !l.ended }

// Advance moves on to the arrival after the next.
func (l *replaySchedule) Advance() {
	e, ok := <-l.entries
	if !ok {
		l.ended = true
		return
	}
	l.head = load.Arrival{Number: e.Number, At: l.start.At + e.At, Method: e.Method, Target: e.Target}
}

// lengthOf is how long a scenario offers load. The log of a replay is read for it;
// notes say which lines cannot be repeated.
func lengthOf(ctx context.Context, s *load.Scenario) (length time.Duration, notes []string, err error) {
	if s.Executor != load.Replay {
		return s.Length(), nil, nil
	}
	found, err := accesslog.Scan(ctx, accesslog.Config{Path: s.Log.Path, Speed: s.Log.Speed})
	if err != nil {
		return 0, nil, err
	}
	for _, skip := range found.Reasons {
		notes = append(notes, fmt.Sprintf("%s: %d lines were left out: %s, such as line %d: %s", s.Log.Path, skip.Count, skip.Reason, skip.Line, skip.Example))
	}
	if found.Entries == 0 {
		return 0, nil, fmt.Errorf("%s has no GET or HEAD request that can be repeated: give a log in the combined format (%s)", s.Log.Path, strings.Join(notes, "; "))
	}
	return found.Length, notes, nil
}
