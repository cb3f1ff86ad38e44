// Package ui serves the runs of a directory as pages for a browser: a list of
// all of them, each with its report, the one under way while it runs, and the
// difference between any two.
//
// It reads and never writes. What a run found is worked out by package analysis
// and what differs by package difference; the report is served as it lies in
// the run's directory. What this package owns is which runs there are and in
// what state, how raw files are followed while they grow, and who may ask.
//
// Whoever reaches the address reads every run: there is no log-in. So it listens
// on the machine itself unless it is told otherwise, and an answer is given
// only under a name that no stranger's page can borrow (see hostCheck). Names
// and texts in a run come from experiment files and from programs under test:
// they are escaped, and no page runs a script but this package's own.
package ui

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"loadstone/lab/driver/publish"
)

// Config is what to serve, and where.
type Config struct {
	Runs   string // the directory of runs
	Listen string // host:port
}

// DefaultConfig serves ./runs to this machine.
func DefaultConfig() Config { return Config{Runs: "runs", Listen: "127.0.0.1:7787"} }

// Validate returns everything that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	if info, err := os.Stat(c.Runs); err != nil || !info.IsDir() {
		errs = append(errs, fmt.Errorf("there is no directory of runs %q; run an experiment first, or name another one", c.Runs))
	}
	if _, port, err := net.SplitHostPort(c.Listen); err != nil || port == "" {
		errs = append(errs, fmt.Errorf("%q is no address to listen on; write one such as 127.0.0.1:7787", c.Listen))
	}
	return errors.Join(errs...)
}

// Public says whether others than this machine can reach the address.
func (c Config) Public() bool {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil || host == "localhost" {
		return false
	}
	a, err := netip.ParseAddr(host)
	return err != nil || !a.IsLoopback()
}

// The server's limits. It serves a few people.
const (
	headerTimeout = 5 * time.Second
	// writeTimeout bounds an answer: a raw file of some hundred MB to a slow
	// reader. Live pages move it on with every event.
	writeTimeout = 5 * time.Minute
	idleTimeout  = 2 * time.Minute
	// maxHeader bounds a request's header: the longest that is meant is two
	// names of runs.
	maxHeader = 16 << 10
	// stopTimeout bounds the wait for answers under way when told to stop.
	stopTimeout = time.Second
)

// Server serves the pages.
type Server struct {
	inner  net.Listener
	server *http.Server
	cancel context.CancelFunc // ends the live pages
}

// Listen binds the address. Nothing is answered before Run. Whoever listens and
// does not Run must Close.
func Listen(ctx context.Context, c Config) (*Server, error) {
	handler, err := newHandler(c)
	if err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	inner, err := lc.Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen for browsers: %w", explain(c.Listen, err))
	}
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	return &Server{inner: inner, cancel: cancel, server: &http.Server{
		Handler: handler, BaseContext: func(net.Listener) context.Context { return base },
		// No ReadTimeout: net/http would end a live page's context with it, and no
		// request here has a body that is read.
		ReadHeaderTimeout: headerTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
	}}, nil
}

// explain says who holds an address that is taken. The address of a name is not
// looked up for it.
func explain(address string, err error) error {
	at, parseErr := netip.ParseAddrPort(address)
	if parseErr != nil || !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	who := "a process of another user, or of another container"
	if h := publish.WhoHolds(at); h != nil {
		who = fmt.Sprintf("%s (pid %d)", h.Program, h.PID)
	}
	return fmt.Errorf("port %d of %s is taken by %s; stop that, or listen on another port: %w", at.Port(), at.Addr(), who, syscall.EADDRINUSE)
}

// URL is where the list of runs is.
func (s *Server) URL() string { return "http://" + s.inner.Addr().String() + "/" }

// Run serves until ctx ends. Answers under way then get a second; live pages end
// at once.
func (s *Server) Run(ctx context.Context) error {
	defer s.cancel()
	served := make(chan error, 1)
	go func() { served <- s.server.Serve(s.inner) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve pages on %s: %w", s.URL(), err)
	case <-ctx.Done():
	}
	s.cancel()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	err := s.server.Shutdown(stop)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.server.Close()
	}
	// Shutdown and Close make Serve return ErrServerClosed.
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}

// hostCheck answers only requests under an address, under localhost, or under
// the name that was given to listen on. A page elsewhere that has its own name
// resolve to this machine (DNS rebinding) asks under that name, and is refused.
func hostCheck(listen string, next http.Handler) http.Handler {
	given, _, _ := net.SplitHostPort(listen)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		host = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
		_, err := netip.ParseAddr(host)
		if err != nil && host != "localhost" && (given == "" || host != strings.ToLower(given)) {
			http.Error(w, "these pages are not served under this name: use the address that loadstone ui printed", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// The policies: what a page may fetch and run. Ours has one script and one style
// sheet, from here. A report has its style within it and runs nothing; it is
// not even of this origin, so that one that was tampered with reads no other.
const (
	ourPolicy    = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	reportPolicy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; sandbox allow-downloads allow-popups"
)

// guarded sets what every answer has.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", ourPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache") // runs grow, and are derived again
		next.ServeHTTP(w, r)
	})
}
