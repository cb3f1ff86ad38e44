package plant

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sync/errgroup"
)

const (
	// idleTimeout ends connections that nobody uses; longer than any pause of a
	// measurement.
	idleTimeout = time.Minute
	// stopTimeout bounds the wait for requests under way when told to stop. The
	// load is over by then.
	stopTimeout = 500 * time.Millisecond
	// adminTimeout bounds a scrape.
	adminTimeout = 5 * time.Second
)

// Service is a plant that listens.
type Service struct {
	config   Config
	cpu      time.Duration
	body     []byte
	requests atomic.Int64
	// handled is how long requests were handled, and called for how much of that they waited
	// for other plants.
	handled, called seconds

	worker worker
	thread thread
	slots  worker
	heap   *heap
	disk   *disk
	lock   *lock
	cache  *cache
	pool   *pool
	calls  []*caller
	wire   *wire
	queue  *queue
	stage  *stage

	listener, admin net.Listener
}

// Listen makes the service and binds its two addresses. Nothing is answered
// before Run. Whoever does not Run must Close.
func Listen(ctx context.Context, c Config) (*Service, error) {
	s := &Service{config: c, cpu: c.cpu(), body: bytes.Repeat([]byte("x"), c.BodyBytes), worker: newWorker(c.Workers)}
	if c.Thread {
		s.thread = make(thread)
	}
	if c.Slots > 0 {
		s.slots = newWorker(c.Slots)
	}
	if c.Garbage != nil {
		s.heap = newHeap(*c.Garbage)
	}
	if c.Lock != nil {
		s.lock = &lock{}
	}
	if c.Cache != nil {
		s.cache = newCache(*c.Cache)
	}
	if c.Pool != nil {
		s.pool = &pool{size: c.Pool.Size}
	}
	for _, call := range c.Calls {
		s.calls = append(s.calls, newCaller(call))
	}
	if c.Wire != nil {
		s.wire = &wire{perSecond: c.Wire.BytesPerSecond}
	}
	if c.Queue != nil {
		s.queue = newQueue(*c.Queue)
	}
	if c.Stage != nil {
		s.stage = newStage(*c.Stage, s.calls)
	}
	var err error
	if c.Disk != nil {
		if s.disk, err = newDisk(*c.Disk); err != nil {
			return nil, err
		}
	}
	var lc net.ListenConfig
	lc.SetMultipathTCP(false) // it costs CPU time on every connection
	if s.listener, err = lc.Listen(ctx, "tcp", c.Listen); err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", c.Listen, err), s.Close())
	}
	if s.admin, err = lc.Listen(ctx, "tcp", c.Admin); err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s for admin: %w", c.Admin, err), s.Close())
	}
	return s, nil
}

// Close gives back what Listen took, where Run has not begun.
func (s *Service) Close() error {
	var errs []error
	for _, l := range []net.Listener{s.listener, s.admin} {
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	if s.disk != nil {
		errs = append(errs, s.disk.close())
	}
	return errors.Join(errs...)
}

// Addr and AdminAddr are where the service listens.
func (s *Service) Addr() net.Addr { return s.listener.Addr() }

// AdminAddr is where metrics and controls are.
func (s *Service) AdminAddr() net.Addr { return s.admin.Addr() }

// Start answers until ctx ends or stop is called, which waits until nothing is answered any more.
// A service that ends too early fails the requests that need it.
func (s *Service) Start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Run(ctx)
	}()
	return func() { cancel(); <-done }
}

// Run answers until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	server := &fasthttp.Server{
		Handler: s.handle, IdleTimeout: idleTimeout, NoDefaultServerHeader: true, NoDefaultDate: true,
		CloseOnShutdown: true, DisablePreParseMultipartForm: true,
	}
	admin := &http.Server{Handler: s.controls(), ReadHeaderTimeout: adminTimeout, WriteTimeout: adminTimeout}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := server.Serve(s.listener); err != nil && !errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("serve on %v: %w", s.Addr(), err)
		}
		return nil
	})
	g.Go(func() error {
		if err := admin.Serve(s.admin); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve admin on %v: %w", s.AdminAddr(), err)
		}
		return nil
	})
	if s.thread != nil {
		g.Go(func() error { s.thread.work(ctx); return nil })
	}
	if s.queue != nil {
		g.Go(func() error { s.queue.consume(ctx); return nil })
	}
	if s.stage != nil {
		g.Go(func() error { s.stage.work(ctx); return nil })
	}
	g.Go(func() error {
		<-ctx.Done()
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		err := server.ShutdownWithContext(stop)
		if errors.Is(err, context.DeadlineExceeded) {
			err = nil // connections of clients that keep them open end with the process
		}
		for _, c := range s.calls {
			c.close()
		}
		if s.disk != nil {
			err = errors.Join(err, s.disk.close())
		}
		// A server that was shut down before it began to serve would serve on.
		if errClose := s.listener.Close(); !errors.Is(errClose, net.ErrClosed) {
			err = errors.Join(err, errClose)
		}
		return errors.Join(err, admin.Close())
	})
	return g.Wait()
}

// handle answers one request.
func (s *Service) handle(ctx *fasthttp.RequestCtx) {
	s.requests.Add(1)
	defer func(began time.Time) { s.handled.add(time.Since(began)) }(time.Now())
	key := uint64(ctx.QueryArgs().GetUintOrZero("key")) // never negative
	s.compute()
	if err := s.wait(); err != nil {
		ctx.Error(err.Error()+"\n", fasthttp.StatusInternalServerError)
		return
	}
	if s.queue != nil && !s.queue.put() {
		ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
		ctx.SetBodyString("the queue is full\n")
		return
	}
	if s.stage != nil {
		s.enqueue(ctx)
		return
	}
	body, err := s.answer(key, &ctx.Response)
	if err != nil {
		ctx.Response.Reset()
		ctx.SetStatusCode(fasthttp.StatusBadGateway)
		ctx.SetBodyString(err.Error() + "\n")
		return
	}
	if s.wire != nil {
		s.wire.transmit(len(body))
	}
	if s.cache != nil || len(s.calls) == 0 { // else it is there already
		ctx.Response.SetBodyRaw(body)
	}
}

// compute uses CPU time, and what time it uses under the lock.
func (s *Service) compute() {
	if s.heap != nil {
		s.heap.use()
	}
	if s.thread != nil {
		s.thread.spin(s.cpu)
	} else {
		s.worker.spin(s.cpu)
	}
	if s.lock != nil {
		s.lock.do(func() {
			s.worker.spin(millis(s.config.Lock.CPUMillis))
			sleep(s.config.Lock.SleepMillis)
		})
	}
}

// wait waits for nothing, and for the disk.
func (s *Service) wait() error {
	if s.slots != nil {
		s.slots <- struct{}{}
		defer func() { <-s.slots }()
	}
	sleep(s.config.SleepMillis)
	if s.disk != nil {
		return s.disk.write()
	}
	return nil
}

// answer is the cached answer, that of the last call, or the service's own. It
// may be within response, which holds the last call's.
func (s *Service) answer(key uint64, response *fasthttp.Response) ([]byte, error) {
	if s.cache != nil {
		if body, ok := s.cache.get(key); ok {
			return body, nil
		}
	}
	if err := s.downstream(key, response); err != nil {
		return nil, err
	}
	switch {
	case s.cache != nil:
		return s.cache.put(key), nil
	case len(s.calls) > 0:
		return response.Body(), nil
	}
	return s.body, nil
}

// downstream makes the calls of one request, within the pool if there is one.
func (s *Service) downstream(key uint64, response *fasthttp.Response) error {
	if s.pool != nil && len(s.calls) > 0 {
		s.pool.acquire()
		defer s.pool.release()
	}
	if len(s.calls) == 0 {
		return nil
	}
	defer func(began time.Time) { s.called.add(time.Since(began)) }(time.Now())
	for _, c := range s.calls {
		if err := c.call(key, response); err != nil {
			return err
		}
	}
	return nil
}

func sleep(ms float64) {
	if ms > 0 {
		time.Sleep(millis(ms))
	}
}
