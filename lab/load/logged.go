package load

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"loadstone/lab/load/accesslog"
)

// logged is the schedule of a replay: what an access log has, at its times.
// A goroutine reads ahead, because a line may have to wait for the disk.
type logged struct {
	start   arrival // its time is when the scenario starts
	entries <-chan accesslog.Entry
	head    arrival
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
func (r *run) openLog(s *Scenario) (schedule, error) {
	log, err := accesslog.Open(accesslog.Config{Path: s.Log.Path, Speed: s.Log.Speed})
	if err != nil {
		return nil, err
	}
	reader := &logReader{log: log, entries: make(chan accesslog.Entry, readAhead), stop: make(chan struct{})}
	reader.done.Go(reader.read)
	r.logs = append(r.logs, reader)
	l := &logged{start: arrival{at: s.StartTime}, entries: reader.entries}
	l.advance()
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

// peek returns the next arrival, or false when there is none.
func (l *logged) peek() (arrival, bool) { return l.head, !l.ended }

// advance moves on to the arrival after the next.
func (l *logged) advance() {
	e, ok := <-l.entries
	if !ok {
		l.ended = true
		return
	}
	l.head = arrival{number: e.Number, at: l.start.at + e.At, method: e.Method, target: e.Target}
}
