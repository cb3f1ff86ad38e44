package service

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof" // it also registers on the default mux, which nobody serves
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Admin serves the operator: GET /metrics and what else only reads to whoever reaches
// the address; /debug/pprof/ and what changes something (every method but GET and HEAD)
// to who sends the token, as "Authorization: Bearer TOKEN". Without a token nobody does
// that: any user of the host reaches a loopback address. The command line, which
// package pprof offers, is not served: it may hold passwords.
type Admin struct {
	inner  net.Listener
	mux    *http.ServeMux
	server *http.Server
	token  [sha256.Size]byte // its hash
	locked bool              // there is none
}

// The admin server's limits. It serves a handful of scrapers and people.
const (
	adminHeaderTimeout = 5 * time.Second
	adminIdleTimeout   = 2 * time.Minute
	// adminWriteTimeout bounds an answer's time; a profile taken over time has
	// its own time on top.
	adminWriteTimeout = 30 * time.Second
	// maxProfile bounds that time: a profile slows the process down, so it must
	// not go on because somebody mistyped a number.
	maxProfile = 2 * time.Minute
	// maxScrapes bounds concurrent scrapes, and scrapeTimeout each of them, so
	// that scraping cannot starve serving. A further one is answered 503.
	maxScrapes    = 4
	scrapeTimeout = 10 * time.Second
	// adminStopTimeout bounds the wait for a scrape or profile under way.
	adminStopTimeout = time.Second
)

// ListenAdmin binds addr, host:port, for the metrics that g gathers; token may be empty.
// Nothing is accepted before Run. Whoever listens and does not Run must Close.
func ListenAdmin(ctx context.Context, addr, token string, g prometheus.Gatherer) (*Admin, error) {
	var lc net.ListenConfig
	inner, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %q for admin: %w", addr, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(g, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes,
		Timeout:             scrapeTimeout,
		EnableOpenMetrics:   true,
	}))
	a := &Admin{inner: inner, mux: mux, token: sha256.Sum256([]byte(token)), locked: token == ""}
	for path, profile := range map[string]http.HandlerFunc{
		"": pprof.Index, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
	} {
		mux.HandleFunc("/debug/pprof/"+path, a.unlocked(bounded(profile)))
	}
	a.server = &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: adminHeaderTimeout,
		// No ReadTimeout: net/http would end a profile's context with it. What
		// a request may take in all is bounded by WriteTimeout.
		WriteTimeout: adminWriteTimeout,
		IdleTimeout:  adminIdleTimeout,
		// A scraper that hangs up is no news.
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	return a, nil
}

// ServeAdmin serves the metrics that g gathers on addr until stop, and not until ctx ends.
func ServeAdmin(ctx context.Context, addr string, g prometheus.Gatherer) (stop func() error, err error) {
	admin, err := ListenAdmin(ctx, addr, "", g)
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

// unlocked lets only those through who send the token.
func (a *Admin) unlocked(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		given, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		hash := sha256.Sum256([]byte(given)) // equal lengths compare in constant time
		switch {
		case a.locked:
			http.Error(w, "profiles and changes are off: start the service with an admin token", http.StatusForbidden)
		case !bearer || subtle.ConstantTimeCompare(hash[:], a.token[:]) != 1:
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "send the admin token: Authorization: Bearer TOKEN", http.StatusUnauthorized)
		default:
			next(w, r)
		}
	}
}

// bounded refuses profiles that would take longer than maxProfile.
func bounded(profile http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		seconds := r.URL.Query().Get("seconds")
		if s, err := strconv.ParseFloat(seconds, 64); err == nil && s > maxProfile.Seconds() {
			http.Error(w, fmt.Sprintf("seconds is %q: the most is %v", seconds, maxProfile.Seconds()), http.StatusBadRequest)
			return
		}
		profile(w, r)
	}
}

// Handle adds what a system lets its operator do, under a pattern of http.ServeMux. GET
// and HEAD must change nothing. It is for before Run.
func (a *Admin) Handle(pattern string, handler http.Handler) {
	change := a.unlocked(handler.ServeHTTP)
	a.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			handler.ServeHTTP(w, r)
			return
		}
		change(w, r)
	})
}

// Addr is the address that is listened on.
func (a *Admin) Addr() net.Addr { return a.inner.Addr() }

// Close releases the address of a server that is not going to Run. After Run, it
// does nothing.
func (a *Admin) Close() error {
	if err := a.inner.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close admin listener: %w", err)
	}
	return nil
}

// Run serves until ctx ends. Requests under way then get a second; a longer
// profile is cut, which is no error.
func (a *Admin) Run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- a.server.Serve(a.inner) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve admin on %v: %w", a.Addr(), err)
	case <-ctx.Done():
	}
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), adminStopTimeout)
	defer cancel()
	err := a.server.Shutdown(stopCtx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = a.server.Close()
	}
	// Shutdown and Close make Serve return ErrServerClosed.
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	if err != nil {
		return fmt.Errorf("stop admin on %v: %w", a.Addr(), err)
	}
	return nil
}
