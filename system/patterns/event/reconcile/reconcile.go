// Package reconcile checks from outside that what was accepted is stored: it sends
// events of its own to the service, each with an id and again until it is answered 2xx,
// and asks the log service for every id that was.
//
// It is an accountant and no load generator: a few events at a time, whose ids it
// keeps in memory until they are found. It needs no knowledge of queues, so it counts
// the same way for every form of the pattern, whichever process is killed meanwhile.
package reconcile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"loadstone/block/httpserver"
	"loadstone/system/patterns/event"
)

// Config says who is checked. Start from DefaultConfig.
type Config struct {
	App, Log string // host:port of the service and of the log service
	// Rate is how many events are sent a second, and For how long.
	Rate int
	For  time.Duration
	// Settle is how long an accepted event may take to be stored. One that takes
	// longer is missing.
	Settle time.Duration
	// Senders is how many events wait for their answers at once, at most.
	Senders int
	// AdminListen is the address for metrics, host:port.
	AdminListen string
}

// DefaultConfig sends 200 events a second for ten seconds.
func DefaultConfig() Config {
	return Config{Rate: 200, For: 10 * time.Second, Settle: 30 * time.Second, Senders: 16, AdminListen: "127.0.0.1:9093"}
}

// Validate returns all problems, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	if c.App == "" || c.Log == "" {
		errs = append(errs, errors.New("reconcile needs the addresses of the service and of the log service, HOST:PORT"))
	}
	if c.Rate < 1 || c.Rate > 10_000 {
		errs = append(errs, fmt.Errorf("%d events a second: write 1 to 10000", c.Rate))
	}
	if c.For <= 0 || c.Settle <= 0 {
		errs = append(errs, fmt.Errorf("it sends for %v and waits for %v: write times above 0", c.For, c.Settle))
	}
	if c.Senders < 1 || c.Senders > 1024 {
		errs = append(errs, fmt.Errorf("%d senders: write 1 to 1024", c.Senders))
	}
	return errors.Join(errs...)
}

// Count is what was found.
type Count struct {
	Accepted int64 // events answered 2xx
	Stored   int64 // of them, found in the store
	Missing  int64 // of them, not found within Config.Settle
	Repeated int64 // times that an event was sent again for want of an answer
}

// Balanced reports whether every accepted event was found.
func (c Count) Balanced() bool { return c.Accepted == c.Stored }

// String is the one line that says it.
func (c Count) String() string {
	sign := "="
	if !c.Balanced() {
		sign = "≠"
	}
	return fmt.Sprintf("accepted %d %s stored %d (missing %d, sent again %d)", c.Accepted, sign, c.Stored, c.Missing, c.Repeated)
}

const (
	// callTimeout is longer than the service lets its callers wait.
	callTimeout = event.DefaultTimeout + time.Second
	// retryPause is between two attempts with one event.
	retryPause = 100 * time.Millisecond
	// checkPause is between two questions to the log service, of checkMost ids at most.
	checkPause = 200 * time.Millisecond
	checkMost  = 2000
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

	mu    sync.Mutex
	count Count
	open  []open // oldest first
}

func newReconciler(cfg Config) *reconciler {
	client := func(addr string) *fasthttp.HostClient {
		return &fasthttp.HostClient{Addr: addr, MaxConns: cfg.Senders + 1, MaxIdemponentCallAttempts: 1}
	}
	return &reconciler{cfg: cfg, app: client(cfg.App), log: client(cfg.Log)}
}

// Run sends events for Config.For, waits until all that were accepted are found or have
// been missing for too long, and returns the count. It serves it meanwhile:
//
//	reconcile_accepted, reconcile_stored, reconcile_missing   gauges
//
// When ctx ends it stops sending, and checks once more what is open.
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
	for range cfg.Senders {
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
		timer := time.NewTimer(retryPause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
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
	var still []open
	var stored, late int64
	for _, o := range asked {
		switch {
		case ok && !missing[o.id]:
			stored++
		case time.Since(o.at) > r.cfg.Settle:
			late++
		default:
			still = append(still, o)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = append(still, r.open[len(asked):]...)
	r.count.Stored += stored
	r.count.Missing += late
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

// serve serves the metrics, which whoever watches reads until the last event is
// found: so until stop, and not until ctx ends.
func (r *reconciler) serve(ctx context.Context) (stop func() error, err error) {
	registry := prometheus.NewRegistry()
	if err := r.register(registry); err != nil {
		return nil, err
	}
	admin, err := httpserver.ListenAdmin(ctx, r.cfg.AdminListen, registry)
	if err != nil {
		return nil, fmt.Errorf("serve metrics: %w", err)
	}
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- admin.Run(serving) }()
	return func() error {
		cancel()
		return <-served
	}, nil
}

func (r *reconciler) register(registry prometheus.Registerer) error {
	for name, value := range map[string]func(Count) int64{
		"accepted": func(c Count) int64 { return c.Accepted },
		"stored":   func(c Count) int64 { return c.Stored },
		"missing":  func(c Count) int64 { return c.Missing },
	} {
		g := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "reconcile_" + name, Help: "Events of the reconciliation that are " + name + ".",
		}, func() float64 { return float64(value(r.now())) })
		if err := registry.Register(g); err != nil {
			return fmt.Errorf("register the reconciliation's metrics: %w", err)
		}
	}
	return nil
}
