// Package reconcile checks from outside that what was accepted is stored: it sends
// events of its own to the service, each with an id and again until it is answered 2xx,
// and asks the log service for every id that was: soon after it was accepted, and once
// more at the end, since a store may lose what it had.
//
// It is an accountant and no load generator: a few events at a time, whose ids it
// keeps in memory, two million at most. It needs no knowledge of queues, so it counts
// the same way for every form of the pattern, whichever process is killed meanwhile.
package reconcile

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/block/pause"
	"loadstone/system/patterns/event"
)

const (
	// senders is how many events wait for their answers at once, at most.
	senders = 16
	// callTimeout is longer than the service lets its callers wait.
	callTimeout = event.Timeout + time.Second
	// retryPause is between two attempts with one event.
	retryPause = 100 * time.Millisecond
	// checkPause is between two questions to the log service, of checkMost ids at most.
	checkPause = 200 * time.Millisecond
	checkMost  = 2000
	// stayPause is between two questions for all events.
	stayPause = time.Second
	// mostEvents bounds the ids that are kept: some hundred megabytes.
	mostEvents = 2_000_000
)

// open is an event that was accepted and not yet found.
type open struct {
	id string
	at time.Time
}

// reconciler is one run.
type reconciler struct {
	cfg      Config
	app, log *fasthttp.HostClient

	mu      sync.Mutex
	count   Count
	open    []open // oldest first
	found   []open // all that were stored when they were last asked for
	audited bool   // all of them were asked for since the last was sent
}

func newReconciler(cfg Config) *reconciler {
	client := func(addr string) *fasthttp.HostClient {
		return &fasthttp.HostClient{Addr: addr, MaxConns: senders + 1, MaxIdemponentCallAttempts: 1}
	}
	return &reconciler{cfg: cfg, app: client(cfg.App), log: client(cfg.Log)}
}

// Run sends events for Config.For, waits until all that were accepted are found or have
// been missing for too long, asks for all of them once more, and returns the count. It
// serves it meanwhile, as gauges:
//
//	reconcile_accepted, reconcile_stored, reconcile_missing   the Count
//	reconcile_balanced                                        1 once all were sent and found,
//	                                                          and while they are; else 0
//
// When ctx ends it stops sending, and does the rest.
func Run(ctx context.Context, cfg Config) (Count, error) {
	if err := cfg.Validate(); err != nil {
		return Count{}, err
	}
	r := newReconciler(cfg)
	defer r.app.CloseIdleConnections()
	defer r.log.CloseIdleConnections()
	stop, err := r.serve(ctx)
	if err != nil {
		return Count{}, err
	}
	r.run(ctx)
	return r.now(), stop()
}

// run sends and checks.
func (r *reconciler) run(ctx context.Context) {
	cfg := r.cfg

	sending, cancel := context.WithTimeout(ctx, cfg.For)
	defer cancel()
	var sent sync.WaitGroup
	ids := make(chan string)
	for range senders {
		sent.Go(func() {
			for id := range ids {
				r.send(sending, id)
			}
		})
	}
	checked := make(chan struct{})
	allSent := make(chan struct{})
	go func() { defer close(checked); r.check(allSent) }()
	r.offer(sending, ids)
	close(ids)
	sent.Wait()
	close(allSent)
	<-checked
	r.audit()
	for r.cfg.Stay && pause.For(ctx, stayPause) {
		r.audit()
	}
}

// offer hands out new ids at the configured rate, or as fast as they are taken.
func (r *reconciler) offer(ctx context.Context, ids chan<- string) {
	ticker := time.NewTicker(time.Second / time.Duration(r.cfg.Rate))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		select {
		case <-ctx.Done():
			return
		case ids <- event.NewID():
		}
	}
}

// send sends one event until it is accepted, or ctx ends: then the event may be stored
// or not, and is nobody's claim.
func (r *reconciler) send(ctx context.Context, id string) {
	for {
		if r.post(id) {
			r.mu.Lock()
			r.count.Accepted++
			r.open = append(r.open, open{id, time.Now()})
			r.mu.Unlock()
			return
		}
		if !pause.For(ctx, retryPause) {
			return
		}
		r.mu.Lock()
		r.count.Repeated++
		r.mu.Unlock()
	}
}

func (r *reconciler) post(id string) bool {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.Header.SetMethod(fasthttp.MethodPost)
	req.SetRequestURI("http://" + r.cfg.App + "/handle")
	req.Header.Set(event.IDHeader, id)
	req.Header.Set(event.KeyHeader, id[len(id)-1:])
	req.SetBodyString(`{"from":"reconcile"}`)
	err := r.app.DoTimeout(req, resp, callTimeout)
	return err == nil && resp.StatusCode()/100 == 2
}

// check looks for open events until none is left after the last was sent.
func (r *reconciler) check(allSent <-chan struct{}) {
	ticker := time.NewTicker(checkPause)
	defer ticker.Stop()
	for {
		last := false
		select {
		case <-allSent:
			last = true
		default:
		}
		r.look()
		if last && r.left() == 0 {
			return
		}
		<-ticker.C
	}
}

func (r *reconciler) left() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.open)
}

// look asks for the oldest open events, and closes those that are found or overdue.
func (r *reconciler) look() {
	r.mu.Lock()
	asked := append([]open(nil), r.open[:min(len(r.open), checkMost)]...)
	r.mu.Unlock()
	if len(asked) == 0 {
		return
	}
	missing, ok := r.missing(asked)
	var still, stored []open
	var late int64
	for _, o := range asked {
		switch {
		case ok && !missing[o.id]:
			stored = append(stored, o)
		case time.Since(o.at) > r.cfg.Settle:
			late++
		default:
			still = append(still, o)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = append(still, r.open[len(asked):]...)
	r.found = append(r.found, stored...)
	r.count.Stored += int64(len(stored))
	r.count.Missing += late
}

// audit asks for all that were found once more, after the last is closed: nothing else
// uses found then. What is gone stays missing though it may come back, and so is what
// the log service does not answer for within Config.Settle.
func (r *reconciler) audit() {
	var there []open
	deadline := time.Now().Add(r.cfg.Settle)
	for asked := range slices.Chunk(r.found, checkMost) {
		missing, ok := r.missing(asked)
		for !ok && time.Now().Before(deadline) {
			time.Sleep(checkPause)
			missing, ok = r.missing(asked)
		}
		for _, o := range asked {
			if ok && !missing[o.id] {
				there = append(there, o)
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	gone := int64(len(r.found) - len(there))
	r.found, r.audited = there, true
	r.count.Stored -= gone
	r.count.Missing += gone
}

// missing asks the log service. ok is false if it does not answer.
func (r *reconciler) missing(asked []open) (missing map[string]bool, ok bool) {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	var ids bytes.Buffer
	for _, o := range asked {
		ids.WriteString(o.id + "\n")
	}
	req.Header.SetMethod(fasthttp.MethodPost)
	req.SetRequestURI("http://" + r.cfg.Log + "/missing")
	req.SetBody(ids.Bytes())
	if err := r.log.DoTimeout(req, resp, callTimeout); err != nil || resp.StatusCode() != fasthttp.StatusOK {
		return nil, false
	}
	missing = make(map[string]bool)
	for id := range strings.FieldsSeq(string(resp.Body())) {
		missing[id] = true
	}
	return missing, true
}

func (r *reconciler) now() Count {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}

// balanced reports whether the count is final, as far as is known, and balanced.
func (r *reconciler) balanced() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.audited && r.count.Balanced()
}
