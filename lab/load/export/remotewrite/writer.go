package remotewrite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/exp/api/remote"

	"loadstone/lab/load"
)

// Writer sends windows. New begins it and Close ends it.
type Writer struct {
	cfg       Config
	api       *remote.API
	transport *http.Transport

	mu      sync.Mutex
	queue   []point // the oldest first; at most cfg.Queue
	totals  totals  // of all windows, those that were dropped included
	lastAt  int64   // of the newest point
	windows int     // that Add was given
	dropped int     // of them, for want of room
	closed  bool

	wake   chan struct{} // holds one: something was queued, or the Writer closed
	cancel context.CancelFunc
	done   chan struct{} // closed when the goroutine has ended

	// The goroutine's until done is closed.
	lost int // windows in pushes that failed
	err  error
}

// New checks the configuration and starts the Writer's goroutine. It does not
// look whether the receiver is there: it may come later.
func New(cfg Config) (*Writer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("remote write: %w", err)
	}
	cfg.Labels = maps.Clone(cfg.Labels)
	cfg.Header = maps.Clone(cfg.Header)
	w := &Writer{
		cfg: cfg, totals: newTotals(), wake: make(chan struct{}, 1), done: make(chan struct{}),
		transport: &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true},
	}
	client := &http.Client{
		Transport: &requests{header: cfg.Header, next: w.transport},
		// A redirect would take the headers, and with them a token, elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	var err error
	w.api, err = remote.NewAPI(cfg.URL, remote.WithAPIPath(""), remote.WithAPIHTTPClient(client),
		// Five repeats, waiting 3 s in all: the next push is another chance.
		remote.WithAPIBackoff(remote.BackoffConfig{Min: 100 * time.Millisecond, Max: 2 * time.Second, MaxRetries: 5}))
	if err != nil {
		return nil, fmt.Errorf("remote write to %s: %w", cfg.receiver(), err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	go w.run(ctx)
	return w, nil
}

// Add queues a window and returns at once. Where the queue is full the oldest
// window makes room: its counts are in those that follow, its latencies and
// gauges are lost. After Close it does nothing.
func (w *Writer) Add(window load.Window) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	if w.windows == 0 { // or the first second would be no increase
		w.lastAt = window.Start.UnixMilli()
		w.queue = append(w.queue, point{at: w.lastAt, totals: w.totals})
	}
	w.windows++
	w.totals = w.totals.add(&window)
	// A receiver refuses a whole push for one sample that is out of order.
	w.lastAt = max(end(&window).UnixMilli(), w.lastAt+1)
	w.queue = append(w.queue, point{at: w.lastAt, totals: w.totals, window: &window})
	for len(w.queue) > w.cfg.Queue {
		if w.queue[0].window != nil {
			w.dropped++
		}
		w.queue[0] = point{} // lets go of its window
		w.queue = w.queue[1:]
	}
	w.signal()
}

// Close sends what is queued, ends the series and stops the Writer: two pushes
// at most, one of them under way. When ctx is done first, it gives up what is
// left. It returns what was not delivered, with
// the last reason; nil if everything was.
func (w *Writer) Close(ctx context.Context) error {
	w.mu.Lock()
	w.closed = true
	w.signal()
	w.mu.Unlock()
	select {
	case <-w.done:
	case <-ctx.Done():
		w.cancel()
		<-w.done
	}
	w.cancel()
	w.transport.CloseIdleConnections()
	return w.outcome()
}

// outcome is what Close says, once the goroutine has ended.
func (w *Writer) outcome() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	missing := w.dropped + w.lost
	switch {
	case missing > 0 && w.err != nil:
		return fmt.Errorf("remote write to %s: %d of %d windows were not delivered, %d of them because it was too slow: %w",
			w.cfg.receiver(), missing, w.windows, w.dropped, w.err)
	case missing > 0:
		return fmt.Errorf("remote write to %s: %d of %d windows were not delivered because it was too slow",
			w.cfg.receiver(), missing, w.windows)
	case w.err != nil:
		return fmt.Errorf("remote write to %s: %w", w.cfg.receiver(), w.err)
	}
	return nil
}

// signal wakes the goroutine; w.mu is held.
func (w *Writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // it has been told
	}
}

// run pushes until the Writer is closed and everything was tried once.
func (w *Writer) run(ctx context.Context) {
	defer close(w.done)
	for range w.wake {
		points, last := w.take()
		w.push(ctx, points, last)
		if last {
			return
		}
	}
}

// take empties the queue. last says that nothing will come after it.
func (w *Writer) take() (points []point, last bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	points, w.queue = w.queue, nil
	return points, w.closed
}

// begun says whether there was a window at all.
func (w *Writer) begun() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.windows > 0
}

// push sends points in one request, which it repeats while there is time.
func (w *Writer) push(ctx context.Context, points []point, last bool) {
	if ending := last && w.begun(); len(points) == 0 && !ending {
		return
	}
	all, err := w.convert(points, last)
	if err != nil {
		w.err = err
	}
	// The deadline bounds how long a receiver that accepts and never answers
	// keeps the queue waiting, and with it how much is dropped.
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	defer cancel()
	var failed error // of the last attempt, which says more than that time was up
	_, err = w.api.Write(ctx, remote.WriteV1MessageType, encode(all),
		remote.WithWriteRetryCallback(func(err error) { failed = err }))
	if err == nil {
		return
	}
	if failed != nil && ctx.Err() != nil {
		err = failed
	}
	if w.err == nil || !errors.Is(err, context.Canceled) { // as only Close does
		w.err = errors.New(brief(err.Error()))
	}
	for _, p := range points {
		if p.window != nil {
			w.lost++
		}
	}
}

// mostReason bounds what of a receiver's answer is passed on, in characters.
const mostReason = 300

// brief makes an error that holds what a receiver answered fit to be shown:
// short, on one line, and without control characters.
func brief(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
	if r := []rune(text); len(r) > mostReason {
		return string(r[:mostReason]) + "…"
	}
	return text
}

// mostAnswer bounds how much of an answer is read, in bytes: the client reads
// all of it into memory.
const mostAnswer = 4096

// requests adds the user's headers and bounds the answers.
type requests struct {
	header map[string]string
	next   http.RoundTripper
}

// RoundTrip is that of http.RoundTripper.
func (r *requests) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("User-Agent", "loadstone")
	for name, value := range r.header {
		request.Header.Set(name, value)
	}
	response, err := r.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	response.Body = &bounded{Reader: io.LimitReader(response.Body, mostAnswer), Closer: response.Body}
	return response, nil
}

// bounded is a body of which only a part can be read.
type bounded struct {
	io.Reader
	io.Closer
}
