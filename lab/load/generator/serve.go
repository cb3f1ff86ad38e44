// Package generator is the load generator as a process of its own. Serve is the
// process's side: it reads plans and writes windows and results, as lines of
// JSON. Process is the other side: it starts such a process and drives it.
//
// How a plan is carried out is package engine's.
package generator

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/engine"
)

// mostLine bounds one line of the protocol between Process and Serve, in
// bytes: a Result with two histograms takes tens of kilobytes.
const mostLine = 16 << 20

// message is one line from the generator: exactly one of the first four fields is set.
type message struct {
	Window *load.Window `json:"window,omitempty"`
	Result *load.Result `json:"result,omitempty"`
	Error  string       `json:"error,omitempty"`
	Now    *time.Time   `json:"now,omitempty"`
	Wire   int          `json:"wire,omitempty"` // with Now: of this protocol
}

// wire is the version of the protocol: from 2 on, a generator tells the time during a load, and
// from 3 on the arrivals of a plan may come in strata.
const wire = 3

// order is one line to the generator: a plan, the word to end the load that
// is under way, and why, or the question what its clock says.
type order struct {
	Stop  string `json:"stop,omitempty"`
	Clock bool   `json:"clock,omitempty"`
	load.Plan
}

// Serve is the generator as a process: it reads plans from r, one line of JSON
// each, carries them out one after the other, and writes lines of JSON to w:
// {"window": …} for each second of a load, and {"result": …} or
// {"error": "…"} at its end. The line {"clock": true} is answered with {"now": …}, also
// during a load. The line {"stop": "why"} ends a load early; when none is under way it
// says nothing. Any other line that is not a valid plan is
// answered with an error, and the next is read. Nothing is kept from one plan
// to the next.
//
// It returns nil when r ends. The end of r means that whoever sent the plans is
// gone, so a load under way is abandoned: the generator cannot outlive the lab.
// Who has asked for the clock during a load is taken for gone as well when nothing
// comes of it for silentFor. It returns an error then, when ctx ends, or when r or w
// fail. When ctx ends and r is an io.Closer, r is closed; a reader that cannot be closed
// under a read keeps one goroutine until its next line or its end.
func Serve(ctx context.Context, r io.Reader, w io.Writer) error {
	return serve(ctx, r, w, silentFor)
}

func serve(ctx context.Context, r io.Reader, w io.Writer, patience time.Duration) error {
	lines, readErr := make(chan []byte), make(chan error, 1)
	alive, gone := context.WithCancelCause(ctx)
	defer gone(nil)
	go func() {
		readErr <- readLines(alive, r, lines)
		gone(errGone)
	}()
	out := &lineWriter{w: w, patience: patience}
	for {
		select {
		case line := <-lines:
			out.answer(alive, line, lines)
			if err := out.failed(); err != nil {
				return fmt.Errorf("load generator: %w", err)
			}
		case err := <-readErr:
			if err != nil {
				return fmt.Errorf("load generator: read a plan: %w", err)
			}
			return nil
		case <-ctx.Done():
			if c, ok := r.(io.Closer); ok {
				_ = c.Close() // only to end the read; what it says does not matter now
			}
			return fmt.Errorf("load generator: %w", context.Cause(ctx))
		}
	}
}

var errGone = errors.New("whoever sent the plan has closed the connection")

// readLines hands each line of r to lines, until r ends or ctx does.
func readLines(ctx context.Context, r io.Reader, lines chan<- []byte) error {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, mostLine)
	for scanner.Scan() {
		line := append([]byte(nil), scanner.Bytes()...)
		select {
		case lines <- line:
		case <-ctx.Done():
			return nil
		}
	}
	return scanner.Err()
}

// lineWriter writes messages, and remembers its first failure.
type lineWriter struct {
	patience time.Duration // see Serve

	mu  sync.Mutex
	w   io.Writer
	err error
}

// answer carries out the plan on line and writes what comes of it. Lines that
// come meanwhile may stop it; a plan among them is an error, because whoever
// sends one has not read the result.
func (l *lineWriter) answer(ctx context.Context, line []byte, lines <-chan []byte) {
	var o order
	if err := json.Unmarshal(line, &o); err != nil {
		l.write(message{Error: fmt.Sprintf("the line is not a plan: %v", err)})
		return
	}
	switch {
	case o.Stop != "":
		return // it came too late
	case o.Clock:
		l.tellTime()
		return
	}
	ctx, abandon := context.WithCancelCause(ctx)
	defer abandon(nil)
	stops, over := make(chan string, 1), make(chan struct{})
	var listening sync.WaitGroup
	listening.Go(func() {
		if err := l.listen(lines, stops, over); err != nil {
			abandon(err) // first: what is being written may wait for a connection that is cut
			l.fail(err)
		}
	})
	result, err := engine.Run(ctx, o.Plan, func(w load.Window) string {
		l.write(message{Window: &w})
		return ""
	}, stops)
	close(over)
	listening.Wait()
	if err != nil {
		l.write(message{Error: err.Error()})
		return
	}
	l.write(message{Result: &result})
}

// listen hands on the word to stop and tells the time, until over is closed. It is an error if
// whoever has asked for the time is silent for too long afterwards.
func (l *lineWriter) listen(lines <-chan []byte, stops chan<- string, over <-chan struct{}) error {
	var silence <-chan time.Time // from the first question on
	for {
		select {
		case <-over:
			return nil
		case <-silence:
			return errSilent
		case line := <-lines:
			var o order
			switch err := json.Unmarshal(line, &o); {
			case err == nil && o.Clock:
				l.tellTime()
				silence = time.After(l.patience)
			case err != nil || o.Stop == "":
				l.write(message{Error: "a line came in the middle of a load that is not the word to stop it"})
			default:
				select {
				case stops <- o.Stop:
				default: // it has been told
				}
			}
		}
	}
}

func (l *lineWriter) tellTime() {
	now := time.Now()
	l.write(message{Now: &now, Wire: wire})
}

func (l *lineWriter) write(m message) {
	line, err := json.Marshal(m)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && l.err == nil {
		if _, err = l.w.Write(append(line, '\n')); err != nil {
			err = fmt.Errorf("write: %w", err)
		}
	}
	l.err = cmp.Or(l.err, err)
}

// fail is the end of all writing, for another reason than a failure of it.
func (l *lineWriter) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = cmp.Or(l.err, err)
}

func (l *lineWriter) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
