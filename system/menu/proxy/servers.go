package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"loadstone/block/dictionary"
	"loadstone/block/route"
	"loadstone/block/socket"
	"loadstone/system/menu"
)

// serversPath is where menus are at the menu servers.
const serversPath = "/menu"

const (
	// idle is how long a connection is kept: less than servers keep theirs, or a request
	// crosses the server's close.
	idle = 30 * time.Second
	// dialTimeout is beyond a lost packet or two on the way to a server nearby.
	dialTimeout = time.Second
	// shunned is how long a server that failed is asked last.
	shunned = time.Second
	// headerBytes bounds the headers of an answer, as those of a request are.
	headerBytes = 16 << 10
)

// servers are several that can do the same.
type servers struct {
	all      []*server
	timeout  time.Duration
	maxBytes int
	stream   bool // bodies are passed on as they come
	turn     atomic.Uint32
	failures *route.ErrorLog
	seconds  prometheus.Observer
	errors   prometheus.Counter
	retries  prometheus.Counter
}

type server struct {
	client *fasthttp.HostClient
	base   string // http://host:port
	until  atomic.Int64
}

// hostOf is the host:port of a server's address.
func hostOf(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.Hostname() == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return "", fmt.Errorf("the server is %.80q: write http://host:port", address)
	}
	if u.Port() == "" {
		return net.JoinHostPort(u.Hostname(), "80"), nil
	}
	return u.Host, nil
}

// newServers returns those at the addresses, which are valid.
func newServers(name string, addresses []string, limits Limits, m metrics, logger *slog.Logger) *servers {
	g := &servers{
		timeout: limits.Timeout, maxBytes: limits.BodyBytes,
		failures: route.NewErrorLog(logger, "a server did not answer"),
		seconds:  m.seconds.WithLabelValues(name), errors: m.errors.WithLabelValues(name), retries: m.retries.WithLabelValues(name),
	}
	dial := func(address string, within time.Duration) (net.Conn, error) {
		if within <= 0 || within > dialTimeout {
			within = dialTimeout
		}
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		return socket.Dialing((&net.Dialer{}).DialContext)(ctx, "tcp", address)
	}
	for _, address := range addresses {
		host, _ := hostOf(address)
		g.all = append(g.all, &server{base: "http://" + host, client: &fasthttp.HostClient{
			Addr: host, DialTimeout: dial, MaxConns: limits.Conns, MaxIdleConnDuration: idle, ConnPoolStrategy: fasthttp.LIFO,
			ReadTimeout: limits.Timeout, WriteTimeout: limits.Timeout, MaxResponseBodySize: limits.BodyBytes, ReadBufferSize: headerBytes,
			MaxIdemponentCallAttempts: 1, // how often is decided here
			NoDefaultUserAgentHeader:  true, DisablePathNormalizing: true, SecureErrorLogMessage: true,
		}})
	}
	return g
}

func (g *servers) close() {
	for _, s := range g.all {
		s.client.CloseIdleConnections()
	}
}

// pick returns the server with the least to do of those that have not failed of late, taking
// turns among equals; another one than not, if there is any.
func (g *servers) pick(not *server) *server {
	now, turn := time.Now().UnixNano(), g.turn.Add(1)
	var best *server
	var least int64
	for i := range g.all {
		s := g.all[(int(turn)+i)%len(g.all)]
		cost := int64(s.client.PendingRequests())
		if s.until.Load() > now {
			cost += 1 << 32
		}
		if s == not {
			cost += 1 << 48
		}
		if best == nil || cost < least {
			best, least = s, cost
		}
	}
	return best
}

// call is a request to one of the servers.
type call struct {
	req  *fasthttp.Request
	resp *fasthttp.Response
	// target is the path and query.
	target []byte
	// usable says whether an answer can be used; nil if any can.
	usable func(*fasthttp.Response) error
	// until is when it is of no more use; zero if only the servers' own limit counts.
	until time.Time
}

// do makes a call, and once more to another server if that is safe. The error wraps
// menu.ErrOverloaded or menu.ErrUnavailable.
func (g *servers) do(c call) error {
	now := time.Now()
	deadline := now.Add(g.timeout)
	if !c.until.IsZero() && c.until.Before(deadline) {
		deadline = c.until
	}
	twice, first := c.req.Header.IsGet() || c.req.Header.IsHead(), deadline
	if twice {
		first = now.Add(deadline.Sub(now) / 2)
	}
	s := g.pick(nil)
	err := g.attempt(s, c, first)
	if err != nil && twice {
		g.retries.Inc()
		err = g.attempt(g.pick(s), c, deadline)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fasthttp.ErrNoFreeConns):
		return fmt.Errorf("%w: %w", menu.ErrOverloaded, err)
	}
	g.failures.Log("error", err)
	return fmt.Errorf("%w: %w", menu.ErrUnavailable, err)
}

func (g *servers) attempt(s *server, c call, deadline time.Time) error {
	began := time.Now()
	c.req.SetRequestURI(s.base + string(c.target))
	c.resp.StreamBody = g.stream
	err := s.client.DoDeadline(c.req, c.resp, deadline)
	if err == nil && c.usable != nil {
		err = c.usable(c.resp)
	}
	g.seconds.Observe(time.Since(began).Seconds())
	if err == nil {
		return nil
	}
	g.errors.Inc()
	if !errors.Is(err, fasthttp.ErrNoFreeConns) {
		s.until.Store(time.Now().Add(shunned).UnixNano())
	}
	return fmt.Errorf("%s: %w", s.base, err)
}

// lookup asks a menu server for a menu, until ctx ends at most. With a dictionary, the page may come as a
// frame of it, which is returned too.
func (g *servers) lookup(ctx context.Context, id int64, with *dictionary.Dictionary) (page menu.Page, frame []byte, err error) {
	return g.find(ctx, id, wanted{absent: codeNotFound, with: with})
}

// wanted is what a menu server is asked for.
type wanted struct {
	rest   string // of the path, behind the menu's id
	absent []byte // in the body of a 404 that says that there is none
	with   *dictionary.Dictionary
}

func (g *servers) find(ctx context.Context, id int64, what wanted) (page menu.Page, frame []byte, err error) {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	found := false
	c := call{req: req, resp: resp, target: append(strconv.AppendInt([]byte(serversPath+"/"), id, 10), what.rest...)}
	if what.with != nil {
		req.Header.Set(fasthttp.HeaderAcceptEncoding, "dcz")
		req.Header.Set("Available-Dictionary", what.with.Available())
	}
	c.usable = func(resp *fasthttp.Response) (err error) {
		page, frame, found, err = what.read(resp)
		return err
	}
	c.until, _ = ctx.Deadline()
	err = g.do(c)
	if err == nil && !found {
		err = menu.ErrNotFound
	}
	return page, frame, err
}

// codeNotFound is how the body of a menu server's 404 says that it knows no such menu: that of
// any other server, or path, does not.
var (
	codeNotFound       = []byte(`"code":"` + menu.ErrNotFound.Code + `"`)
	codeNoAvailability = []byte(`"code":"no_availability"`)
)

// read makes a page of a menu server's answer. The ETag says whether the body is whole.
func (what wanted) read(resp *fasthttp.Response) (page menu.Page, frame []byte, found bool, err error) {
	if text := resp.Header.Peek(versionHeader); len(text) > 0 {
		page.Version, err = strconv.ParseInt(string(text), 10, 64)
		if err != nil || page.Version < 0 {
			return menu.Page{}, nil, false, fmt.Errorf("the answer's %s is %.40q: is this a menu server?", versionHeader, text)
		}
	}
	switch status := resp.StatusCode(); {
	case status == http.StatusNotFound && bytes.Contains(resp.Body(), what.absent):
		return page, nil, false, nil
	case status != http.StatusOK:
		return menu.Page{}, nil, false, fmt.Errorf("the answer has status %d", status)
	}
	page.Body = bytes.Clone(resp.Body())
	switch coding := resp.Header.ContentEncoding(); {
	case string(coding) == "dcz" && what.with != nil && bytes.HasPrefix(page.Body, what.with.Header()):
		frame = page.Body[len(what.with.Header()):]
		if page.Body, err = what.with.Decompress(nil, frame); err != nil {
			return menu.Page{}, nil, false, fmt.Errorf("the answer cannot be decompressed: %w", err)
		}
	case len(coding) > 0:
		return menu.Page{}, nil, false, fmt.Errorf("the answer has the coding %.40q, which nobody asked for", coding)
	}
	page.Tag = menu.Tag(page.Body)
	if etag := bytes.TrimPrefix(resp.Header.Peek(fasthttp.HeaderETag), []byte("W/")); len(page.Body) > menu.MaxBodyBytes || string(etag) != fmt.Sprintf(`"%016x"`, page.Tag) {
		return menu.Page{}, nil, false, fmt.Errorf("the answer's ETag %.40q is not that of its %d bytes: is this a menu server?", etag, len(page.Body))
	}
	return page, frame, true, nil
}
