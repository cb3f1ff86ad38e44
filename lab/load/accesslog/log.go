// Package accesslog reads a web server's access log, in the common or the combined
// format, as a list of requests with the times at which to make them.
//
// It reads on as it is asked, so that a log of any size takes the same memory:
// that of the requests of some seconds. It makes no requests. A request's
// Target may have any visible characters, braces among them: it is not text
// with placeholders.
//
// # Times
//
// A log has times of one second's resolution. The n requests of a second are
// spread evenly over it in the order of their lines: the i-th of them, from 0,
// comes i/n of a second after its beginning. The load begins with the second of
// its first request, and Config.Speed divides all times. Each line's time zone
// counts.
//
// # Order
//
// Servers write a line when a request ends, and some of them with the time at
// which it began, so lines are a little out of order. A line that is at most
// ten seconds older than the newest before it is put where its time belongs; an
// older one is skipped. For that the requests of ten seconds are held, but no
// more than a million and 64 MiB of targets: beyond them the oldest second goes
// out early, and what is as old as that is skipped from then on. A single
// second that has more is an error.
//
// # What is skipped
//
// Lines of another form, requests by other methods than GET and HEAD (a log has
// no bodies, so they cannot be repeated), targets that do not begin with a
// slash, and upgrades to another protocol. They are counted by reason, see
// Scan. Empty lines are passed over.
package accesslog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"
)

// Config says what to repeat, and how fast.
type Config struct {
	// Path is the log's file, as text or compressed with gzip.
	Path string
	// Speed divides the log's times: 2 is twice as fast. Above 0.
	Speed float64
}

// Validate returns what is wrong with the configuration, all of it joined, or
// nil. It opens no file.
func (c Config) Validate() error {
	var errs []error
	if c.Path == "" {
		errs = append(errs, errors.New("the access log has no path: give the file to read"))
	}
	if !(c.Speed > 0) || math.IsInf(c.Speed, 1) { // NaN is not above 0 either
		errs = append(errs, fmt.Errorf("speed %v: give a number above 0, such as 1 for the log's own times or 2 for twice as fast", c.Speed))
	}
	return errors.Join(errs...)
}

// Entry is one request.
type Entry struct {
	Number uint64        // from 0, without those that are skipped
	At     time.Duration // after the load's beginning; never less than the entry's before
	Method string        // GET or HEAD
	// Target begins with / and has only visible ASCII characters, so that it
	// can stand in a request line as it is. Bytes that are not allowed there,
	// and those that no browser sends, are escaped as %XX.
	Target string
}

// Bounds on what is held.
const (
	// mostLine is how long a line may be, in bytes. Servers bound a request's
	// line to 8 KiB or so, and a log's line has two or three texts like it.
	mostLine = 64 << 10
	// disorder is how much older than the newest a line may be, in seconds.
	disorder = 10
	// mostHeld requests are held at once, and mostBytes of their targets.
	mostHeld  = 1_000_000
	mostBytes = 64 << 20
)

// Log is an access log that is being read. It is for one goroutine.
type Log struct {
	config Config
	file   *os.File
	lines  *bufio.Reader
	number uint64 // of the line that was read last, from 1

	line    request // read and not yet put in order
	pending bool    // whether there is one
	ended   bool    // whether the file was read to its end
	err     error   // why no more can be read

	order   order
	origin  int64  // the load's first second, by the Unix clock
	begun   bool   // whether origin is known
	out     batch  // the second that is being given out
	next    int    // the next of its requests
	begin   uint32 // where the target of that begins
	entries uint64
	skipped skips
}

// Open opens a log. What is added to the file from then on is not read, so a
// server's own log can be repeated to it. Logs opened on the same file give the
// same entries.
func Open(c Config) (*Log, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	info, err := os.Stat(c.Path) // before it is opened: to open a pipe waits for its writer
	if err != nil {
		return nil, fmt.Errorf("access log: %w", err) // it names the path
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("access log %s: not a regular file: give one", c.Path)
	}
	file, err := os.Open(c.Path)
	if err != nil {
		return nil, fmt.Errorf("access log: %w", err)
	}
	l := &Log{config: c, file: file, order: order{most: mostHeld, mostBytes: mostBytes}}
	if err := l.start(info.Size()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return l, nil
}

// start finds out how the file is to be read, of which size bytes count.
func (l *Log) start(size int64) error {
	l.lines = bufio.NewReaderSize(io.LimitReader(l.file, size), mostLine)
	head, err := l.lines.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return l.readError(err)
	}
	if !bytes.Equal(head, []byte("\x1f\x8b")) {
		return nil
	}
	unzipped, err := gzip.NewReader(l.lines)
	if err != nil {
		return l.readError(err)
	}
	l.lines = bufio.NewReaderSize(unzipped, mostLine)
	return nil
}

// readError wraps an error of reading the file.
func (l *Log) readError(err error) error {
	return fmt.Errorf("access log %s: read after line %d: %w", l.config.Path, l.number, err)
}

// Close closes the file.
func (l *Log) Close() error { return l.file.Close() }

// Next returns the next request; at the end of the log the error is io.EOF. It
// may have to read and parse a second's lines, which takes milliseconds in a
// busy log, and may wait for the disk: whoever must not wait asks ahead of
// time, in another goroutine.
func (l *Log) Next() (Entry, error) {
	for l.next == len(l.out.requests) {
		if err := l.advance(context.Background()); err != nil {
			return Entry{}, err
		}
	}
	r := l.out.requests[l.next]
	at, err := l.at(l.out.second, float64(l.next)/float64(len(l.out.requests)))
	if err != nil {
		return Entry{}, err
	}
	e := Entry{Number: l.entries, At: at, Method: methodGet, Target: l.out.text[l.begin:r.end]}
	if r.head {
		e.Method = methodHead
	}
	l.next++
	l.begin = r.end
	l.entries++
	return e, nil
}

// at is when in the load a moment of the log is: share of a second after the
// beginning of one.
func (l *Log) at(second int64, share float64) (time.Duration, error) {
	ns := (float64(second-l.origin) + share) * float64(time.Second) / l.config.Speed
	if ns >= math.MaxInt64 {
		return 0, fmt.Errorf("access log %s: at speed %v it lasts longer than 292 years: raise the speed, or correct the years in the log", l.config.Path, l.config.Speed)
	}
	return time.Duration(ns), nil
}

// advance makes the next second ready to be given out.
func (l *Log) advance(ctx context.Context) error {
	for l.err == nil {
		l.fetch(ctx)
		switch {
		case l.err != nil:
		case l.pending && l.order.tooOld(l.line.second):
			l.pending = false
			l.skip(outOfOrder)
		case l.pending && !l.order.due(l.line.second):
			l.pending = false
			l.err = l.place()
		case !l.order.empty():
			l.give()
			return nil
		default:
			l.err = io.EOF
		}
	}
	return l.err
}

// give takes the oldest second out of the order.
func (l *Log) give() {
	l.out, l.next, l.begin = l.order.take(l.out), 0, 0
	if !l.begun {
		l.origin, l.begun = l.out.second, true
	}
}

// place puts the line at hand in order.
func (l *Log) place() error {
	if l.order.add(&l.line) {
		return nil
	}
	return fmt.Errorf("access log %s:%d: more than %d requests, or %d MiB of targets, in one second: take a part of the log",
		l.config.Path, l.number, l.order.most, l.order.mostBytes>>20)
}

// fetch sees to it that there is a line at hand, unless the log ended or
// cannot be read, or ctx ended.
func (l *Log) fetch(ctx context.Context) {
	for !l.pending && !l.ended && l.err == nil {
		if l.number%1024 == 0 && ctx.Err() != nil {
			l.err = fmt.Errorf("read access log %s: %w", l.config.Path, context.Cause(ctx))
			return
		}
		l.read()
	}
}

// read reads one line.
func (l *Log) read() {
	text, err := l.lines.ReadSlice('\n')
	if len(text) > 0 {
		l.number++
	}
	l.line.text = text
	if errors.Is(err, bufio.ErrBufferFull) {
		l.skip(tooLong)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = l.lines.ReadSlice('\n')
		}
		text = nil
	}
	if errors.Is(err, io.EOF) {
		l.ended = true
	} else if err != nil {
		l.err = l.readError(err)
		return
	}
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return
	}
	if why := l.line.parse(text); why != fine {
		l.skip(why)
		return
	}
	l.pending = true
}
