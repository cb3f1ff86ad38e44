// Package reconcile checks a chat from outside: it talks and looks on, as viewers do, keeps the
// books of it (package reconcile/ledger), and compares them with the log when all is said. Any process of the
// chat may be killed meanwhile, as long as it is started again: its viewers come back and go on
// where they were, and say again what had no answer.
//
// It is an accountant and no load generator: a goroutine or two for each viewer.
package reconcile

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"loadstone/block/pause"
	"loadstone/system/chat/reconcile/ledger"
)

// Count is what was found.
type Count struct {
	ledger.Count

	// Repeated messages were sent again for want of an answer, and Unanswered ones never got one; Refused
	// ones are not to be said.
	Repeated, Unanswered, Refused int64
	// Returns is how often a viewer came back, and Away the longest time that one was not there.
	Returns int64
	Away    time.Duration
}

// Balanced reports whether the ledger's count is, and every message was accepted.
func (c Count) Balanced() bool { return c.Count.Balanced() && c.Refused == 0 && c.Unanswered == 0 }

// String is the one line that says it.
func (c Count) String() string {
	return fmt.Sprintf("%v; viewers came back %d times, after %v at most; sent again %d, refused %d, without an answer %d",
		c.Count, c.Returns, c.Away.Round(time.Millisecond), c.Repeated, c.Refused, c.Unanswered)
}

// Result is the count, and the first of the violations.
type Result struct {
	Count Count
	Wrong []ledger.Violation
}

// reconciler is one run.
type reconciler struct {
	cfg     Config
	run     string // makes this run's ids its own
	books   *ledger.Ledger
	members []*member
	client  *http.Client

	repeated, unanswered, refused, returns, away atomic.Int64
	here                                         atomic.Int64 // viewers that have joined
	checked                                      atomic.Bool
}

func newReconciler(cfg Config) *reconciler {
	r := &reconciler{cfg: cfg, run: rand.Text()[:8], books: ledger.New(), client: &http.Client{Transport: &http.Transport{}, Timeout: callTimeout}}
	if cfg.Turns {
		r.books.MayTurn()
	}
	for i := range cfg.Viewers {
		stream := cfg.Streams[i%len(cfg.Streams)]
		m := &member{
			r: r, number: i, stream: stream, guest: &guest{r: r, name: fmt.Sprint("viewer ", i+1)}, answers: make(chan told, 1),
			books: r.books.Viewer(stream, fmt.Sprint("viewer ", i+1)),
		}
		if i >= cfg.Senders {
			m.guest = r.members[i%cfg.Senders].guest // guests are not unlimited
		}
		r.members = append(r.members, m)
	}
	return r
}

// Run talks for Config.For, waits until all viewers have seen everything or Config.Settle is
// over, and compares. The error says why that could not be done. It serves the count meanwhile, see register.
//
// When ctx ends nobody says anything any more, and the rest is done.
func Run(ctx context.Context, cfg Config) (Result, error) {
	if err := cfg.Validate(); err != nil {
		return Result{}, err
	}
	r := newReconciler(cfg)
	stop, err := r.serve(ctx)
	if err != nil {
		return Result{}, err
	}
	err = r.reconcile(ctx)
	if err == nil && cfg.Stay {
		<-ctx.Done()
	}
	return r.result(), errors.Join(err, stop())
}

func (r *reconciler) result() Result { return Result{r.now(), r.books.Wrong()} }

func (r *reconciler) now() Count {
	return Count{
		Count: r.books.Count(), Repeated: r.repeated.Load(), Unanswered: r.unanswered.Load(), Refused: r.refused.Load(),
		Returns: r.returns.Load(), Away: time.Duration(r.away.Load()),
	}
}

// reconcile does all but serve the metrics.
func (r *reconciler) reconcile(ctx context.Context) error {
	defer r.client.CloseIdleConnections()
	// Who views outlives ctx: it has to see the last that was said.
	viewing, leave := context.WithCancel(context.WithoutCancel(ctx))
	var viewers, senders sync.WaitGroup
	defer viewers.Wait()
	defer leave()
	for _, m := range r.members {
		viewers.Go(func() { m.view(viewing) })
	}
	if !r.gather(ctx) {
		return fmt.Errorf("%d of %d viewers could not join %s within %v", int64(r.cfg.Viewers)-r.here.Load(), r.cfg.Viewers, r.cfg.URL, r.cfg.Settle)
	}
	talking, hush := context.WithTimeout(ctx, r.cfg.For)
	defer hush()
	settled, give := context.WithCancel(viewing)
	defer give()
	overdue := context.AfterFunc(talking, func() { time.AfterFunc(r.cfg.Settle, give) })
	defer overdue()
	for _, m := range r.members[:r.cfg.Senders] {
		senders.Go(func() { m.talk(talking, settled) })
	}
	senders.Wait()
	for r.books.Awaited() > 0 && pause.For(settled, lookPause) {
	}
	due, err := r.lengths(ctx)
	if err != nil {
		return err
	}
	r.settle(settled, due)
	// From here on nobody sees anything: what is in the books is in the log, whoever goes on talking.
	leave()
	viewers.Wait()
	return r.compare(ctx, due)
}

// gather waits until all viewers have joined: from then on something is due to each.
func (r *reconciler) gather(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Settle)
	defer cancel()
	for r.here.Load() < int64(r.cfg.Viewers) {
		if !pause.For(ctx, lookPause) {
			return false
		}
	}
	return true
}

// reading is for what is asked of the server when all is said. It has a deadline of its own: what was talked
// about until ctx ended, or all waited in vain for an answer, is to be compared.
func (r *reconciler) reading(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), r.cfg.Settle+callTimeout)
}

// lengths are those of the streams' logs.
func (r *reconciler) lengths(ctx context.Context) (map[int64]uint64, error) {
	ctx, cancel := r.reading(ctx)
	defer cancel()
	due := map[int64]uint64{}
	for _, stream := range r.cfg.Streams {
		length, err := r.length(ctx, stream)
		for err != nil && pause.For(ctx, lookPause) {
			length, err = r.length(ctx, stream)
		}
		if err != nil {
			return nil, fmt.Errorf("read the length of stream %d: %w", stream, err)
		}
		due[stream] = length
	}
	return due, nil
}

// settle waits until all viewers of each stream have seen what is due, or ctx is over.
func (r *reconciler) settle(ctx context.Context, due map[int64]uint64) {
	for _, stream := range r.cfg.Streams {
		for !r.seen(stream, due[stream]) && pause.For(ctx, lookPause) {
		}
	}
}

// compare checks the books with each stream's log.
func (r *reconciler) compare(ctx context.Context, due map[int64]uint64) error {
	for _, stream := range r.cfg.Streams {
		reading, cancel := r.reading(ctx)
		err := r.check(reading, stream, due[stream])
		cancel()
		if err != nil {
			return fmt.Errorf("read the log of stream %d: %w", stream, err)
		}
	}
	if r.cfg.MostSkipped >= 0 {
		r.books.AllowSkipped(r.cfg.MostSkipped)
	}
	r.checked.Store(true)
	return nil
}

// seen reports whether all viewers of a stream are at its end, and its analysis, if there is one or is to be.
func (r *reconciler) seen(stream int64, length uint64) bool {
	if totals, told := r.books.Totals(stream); (told || r.cfg.Analysed) && totals.Next < length {
		return false
	}
	for _, m := range r.members {
		if next, _ := m.books.Place(); m.stream == stream && next < length {
			return false
		}
	}
	return true
}
