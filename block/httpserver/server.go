// Package httpserver serves HTTP to the public, on fasthttp, bounded in everything a
// client can make it spend, and stopping without losing a request.
//
// It does not route, log or know what is served. A Server owns its listener
// and every connection accepted from it; the handler belongs to the caller.
package httpserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/valyala/fasthttp"
)

// Config says where and how to serve. Start from DefaultConfig.
type Config struct {
	// Addr is the TCP address to listen on, host:port. Port 0 picks a free one.
	Addr string
	// Handler answers requests. It must not panic: fasthttp does not recover.
	Handler fasthttp.RequestHandler
	// BadRequest answers what could not be read as a request, with status 431
	// (headers larger than ReadBufferBytes), 413 (body larger than
	// MaxBodyBytes), 408 (slower than ReadTimeout) or 400 (no HTTP, or cut
	// short); and with status 503 who comes when MaxConns are open, of whom
	// nothing has been read. That answer gets a Retry-After if it has none. ctx
	// holds no usable request. The connection is closed after it. Like Handler
	// it must not panic.
	BadRequest func(ctx *fasthttp.RequestCtx, status int)
	// Registerer receives the metrics, see Listen. It must not be nil.
	Registerer prometheus.Registerer

	// MaxConns bounds the open connections. One more is answered 503 and
	// closed. Each costs two buffers and a goroutine while it is open.
	MaxConns int
	// PerClient bounds those of one client in the same way. Nil if one may have all.
	PerClient *PerClient
	// MaxBodyBytes bounds a request's body. A longer one is refused, and any of a GET or HEAD, for
	// which a body means nothing; without reading it if its length is given.
	MaxBodyBytes int
	// ReadBufferBytes bounds a request's line and headers together.
	ReadBufferBytes int

	// The three timeouts below may be late by an eighth, never early.

	// ReadTimeout is how long a client may take to send a whole request,
	// counted from its first byte, or from the connection's start for the
	// first request.
	ReadTimeout time.Duration
	// WriteTimeout is how long a client may take to receive a response.
	WriteTimeout time.Duration
	// IdleTimeout is how long a connection may wait for its next request.
	IdleTimeout time.Duration

	// Drain is how long the server goes on accepting after it has been told to
	// stop, so that those who send requests notice that it is not ready.
	Drain time.Duration
	// StopTimeout bounds everything that comes after Drain: connections still
	// open then are cut.
	StopTimeout time.Duration
}

// PerClient bounds the connections that one client has open, whatever they do.
type PerClient struct {
	MaxConns int
	// Client names whose a connection is, by its other end. Others reports that it is not one
	// client's, as a balancer's, and not counted. It must be fast.
	Client func(peer netip.Addr) (name uint64, others bool)
}

// DefaultConfig returns limits for small requests from the open internet.
// Addr, Handler, BadRequest and Registerer are left for the caller.
func DefaultConfig() Config {
	return Config{
		// Two buffers of 8 and 4 KiB and a goroutine each: about 200 MB when
		// all are in use.
		MaxConns: 10_000,
		// For interfaces that take no body: enough to read and answer a
		// mistaken POST, too little to fill memory with.
		MaxBodyBytes: 4 << 10,
		// What proxies commonly let through for one header.
		ReadBufferBytes: 8 << 10,
		// A request is one or two packets: five seconds allow several
		// retransmissions on a bad mobile network and bound a slow attacker.
		ReadTimeout: 5 * time.Second,
		// The same for an answer of a few packets, doubled for slow readers.
		WriteTimeout: 10 * time.Second,
		// Longer than the 60 s for which proxies commonly keep connections to a
		// server, so that the proxy closes first. The other way round, a
		// request may cross the server's close and fail.
		IdleTimeout: 75 * time.Second,
		// Two probes of a balancer that asks every second.
		Drain: 2 * time.Second,
		// A request takes at most ReadTimeout and then the handler's time.
		// Together with Drain well below the 30 s after which orchestrators
		// kill a process.
		StopTimeout: 15 * time.Second,
	}
}

// Validate returns all problems of the configuration, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("httpserver: "+format, args...)) }
	if _, _, err := net.SplitHostPort(c.Addr); err != nil {
		bad("address %q is not host:port: %w", c.Addr, err)
	}
	if c.Handler == nil || c.BadRequest == nil {
		bad("there is no handler, or none for bad requests")
	}
	if c.Registerer == nil {
		bad("there is no metrics registerer")
	}
	for _, n := range []struct {
		name       string
		value, min int
	}{
		{"max connections", c.MaxConns, 1},
		{"max body bytes", c.MaxBodyBytes, 1},
		{"read buffer bytes", c.ReadBufferBytes, 512},
	} {
		if n.value < n.min {
			bad("%s is %d, must be at least %d", n.name, n.value, n.min)
		}
	}
	if c.PerClient != nil && (c.PerClient.MaxConns < 1 || c.PerClient.Client == nil) {
		bad("max connections per client is %d, must be at least 1, with a function that names the client", c.PerClient.MaxConns)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"read timeout", c.ReadTimeout}, {"write timeout", c.WriteTimeout},
		{"idle timeout", c.IdleTimeout}, {"stop timeout", c.StopTimeout},
	} {
		if d.value <= 0 {
			bad("%s is %v, must be positive", d.name, d.value)
		}
	}
	if c.Drain < 0 {
		bad("drain time is %v, must not be negative", c.Drain)
	}
	return errors.Join(errs...)
}

// Server is a bound and bounded HTTP server.
type Server struct {
	cfg      Config
	listener *listener
	fast     *fasthttp.Server
	draining atomic.Bool
}

// Listen binds the address and registers the metrics; nothing is accepted
// before Run. The metrics have no labels:
//
//	http_connections_open            gauge
//	http_connections_refused_total   turned away because MaxConns were open, in all or of one client
//	http_connection_errors_total     ended by a client's mistake, pace or network
//	http_accept_retries_total        accepts that failed for want of resources
//
// Whoever listens and does not Run must Close.
func Listen(ctx context.Context, cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	// Multipath TCP, which Go's listeners offer by default, costs CPU on each
	// connection and takes no socket filter, which the stop needs.
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	inner, err := lc.Listen(ctx, "tcp", cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w", cfg.Addr, err)
	}
	return newServer(cfg, inner), nil
}

func newServer(cfg Config, inner net.Listener) *Server {
	s := &Server{cfg: cfg}
	s.listener = newListener(inner, &s.cfg, &s.draining)
	s.listener.crowd.answer = s.turnAway
	var failed failures
	s.fast = &fasthttp.Server{
		Handler:      s.handle,
		ErrorHandler: func(ctx *fasthttp.RequestCtx, err error) { cfg.BadRequest(ctx, status(err)) },
		Logger:       &failed,
		ConnState:    observe,
		// The listener keeps to MaxConns. This bounds workers, of which each ends
		// a moment after its connection, when the next may be there already.
		Concurrency:        2 * cfg.MaxConns,
		MaxRequestBodySize: cfg.MaxBodyBytes,
		HeaderReceived:     onHeader,
		ReadBufferSize:     cfg.ReadBufferBytes,
		ReadTimeout:        cfg.ReadTimeout,
		WriteTimeout:       cfg.WriteTimeout,
		IdleTimeout:        cfg.IdleTimeout,
		// Forms are not ours to parse: it would write files for a client.
		DisablePreParseMultipartForm: true,
		NoDefaultServerHeader:        true,
		// All errors come to failures, which only counts, so they need not
		// quote what the client sent.
		LogAllErrors:          true,
		SecureErrorLogMessage: true,
	}
	s.register(&failed)
	return s
}

// onHeader bounds the body of requests that have none; 0 would be the limit of all others.
//
// It also has the connection closed after a body in chunks. Such a request may have had a
// Content-Length, too, of which fasthttp does not tell. A proxy that went by that would take
// what follows for a part of this request, and we for the next one, of somebody else: RFC
// 9112, 6.1, wants the connection closed.
func onHeader(header *fasthttp.RequestHeader) fasthttp.RequestConfig {
	if chunked := -1; header.ContentLength() == chunked {
		header.SetConnectionClose()
	}
	if header.IsGet() || header.IsHead() {
		return fasthttp.RequestConfig{MaxRequestBodySize: 1}
	}
	return fasthttp.RequestConfig{}
}

// Addr is the address that is listened on.
func (s *Server) Addr() net.Addr { return s.listener.inner.Addr() }

// Draining reports whether the server has been told to stop: it still answers,
// and should be sent nothing more.
func (s *Server) Draining() bool { return s.draining.Load() }

// Close releases the address of a server that is not going to Run. After Run, it
// does nothing.
func (s *Server) Close() error {
	if err := s.listener.Close(); err != nil {
		return fmt.Errorf("close listener: %w", err)
	}
	return nil
}

// Run serves until ctx ends and then stops as stop.go describes. It returns
// nil if every connection came to its end, and otherwise an error that says
// how many were cut. Unless some were cut, all handlers have returned.
func (s *Server) Run(ctx context.Context) error {
	defer s.listener.crowd.leaving.Wait() // for twice hearing and telling at most
	served := make(chan error, 1)
	go func() { served <- s.fast.Serve(s.listener) }()
	select {
	case <-ctx.Done():
		return s.stop(context.WithoutCancel(ctx), served)
	case err := <-served:
		// The listener has failed. What is under way can still be finished.
		if err == nil {
			err = net.ErrClosed
		}
		err = fmt.Errorf("accept on %v: %w", s.Addr(), err)
		return errors.Join(err, s.abandon(context.WithoutCancel(ctx)))
	}
}

// handle answers one request. Once the server drains, the answer also tells the
// client to use another connection next time.
func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	s.cfg.Handler(ctx)
	if s.draining.Load() {
		ctx.SetConnectionClose()
	}
}

// turnAway answers a connection that is one too many. The answer fits into the
// socket's buffer, so this waits for nobody.
func (s *Server) turnAway(c net.Conn) {
	var ctx fasthttp.RequestCtx
	ctx.Init(&fasthttp.Request{}, c.RemoteAddr(), nil)
	s.cfg.BadRequest(&ctx, fasthttp.StatusServiceUnavailable)
	if len(ctx.Response.Header.Peek(fasthttp.HeaderRetryAfter)) == 0 {
		ctx.Response.Header.Set(fasthttp.HeaderRetryAfter, "1")
	}
	ctx.SetConnectionClose()
	_, _ = ctx.Response.WriteTo(c) // who cannot be told is gone, or will see the end of the connection
}

// status is the answer to a request that could not be read.
func status(err error) int {
	var header *fasthttp.ErrSmallBuffer
	var network net.Error
	switch {
	case errors.As(err, &header):
		return fasthttp.StatusRequestHeaderFieldsTooLarge
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		return fasthttp.StatusRequestEntityTooLarge
	case errors.As(err, &network) && network.Timeout():
		return fasthttp.StatusRequestTimeout
	default:
		return fasthttp.StatusBadRequest
	}
}

func (s *Server) register(failed *failures) {
	auto := promauto.With(s.cfg.Registerer)
	counter := func(name, help string, value func() float64) {
		auto.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value)
	}
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "http_connections_open", Help: "Open connections.",
	}, func() float64 { return float64(s.listener.count()) })
	counter("http_connections_refused_total", "Connections refused because too many were open.",
		func() float64 {
			return float64(s.listener.crowd.refused.Load() + uint64(s.fast.GetRejectedConnectionsCount()))
		})
	counter("http_connection_errors_total", "Connections ended by a client's mistake, pace or network.",
		func() float64 { return float64(failed.n.Load()) })
	counter("http_accept_retries_total", "Accepts that failed for want of resources and were tried again.",
		func() float64 { return float64(s.listener.retries.Load()) })
}

// failures counts what fasthttp would log, a line for each connection that
// fails. Any client can cause such lines at will, so they are not written.
type failures struct{ n atomic.Uint64 }

// Printf implements fasthttp.Logger.
func (f *failures) Printf(string, ...any) { f.n.Add(1) }
