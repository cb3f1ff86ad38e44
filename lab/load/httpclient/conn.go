package httpclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"loadstone/lab/load/failure"
)

// The protocols that a connection can speak: what plan files call them, and
// their names in ALPN.
const (
	HTTP1 = "http/1.1"
	HTTP2 = "h2"
)

// maxHeaderBytes bounds the header of an answer, as the generator's own parser
// does.
const maxHeaderBytes = 64 << 10

// readBuffer is net/http's for HTTP/1.1, half of what it takes by itself: one of
// the larger parts of a connection, of which a load has thousands. Bodies that
// are longer are read past it.
const readBuffer = 2 << 10

// writeStall is how long a connection over HTTP/2 may write nothing although it
// has to before it is given up. A stream that is cut off has to write a frame
// that says so, behind whatever is stuck; without a bound it would wait there
// for longer than its own deadline, and for ever with a server that has stopped
// reading. It is more than any pause that a living server makes.
const writeStall = 10 * time.Second

// Config is where to connect to, and how. It is only read.
type Config struct {
	// URL has the scheme, http or https, and the host: what Host is by default,
	// and what the certificate must be for unless TLS names another.
	URL *url.URL
	// Addresses are where to dial, each host:port with the host resolved. The
	// first is used; the others are tried in turn where a connection is refused.
	Addresses []string
	// LocalIP is the address that the connection comes from; the zero Addr leaves the
	// choice to the system.
	LocalIP netip.Addr
	// Protocol is HTTP1 or HTTP2.
	Protocol string
	// TLS is how an https server is spoken to; nil trusts whom the machine
	// trusts. What it has in NextProtos is replaced by Protocol.
	TLS *tls.Config
}

// validate says what is wrong with the configuration.
func (c *Config) validate() error {
	switch {
	case c.URL == nil || c.URL.Host == "":
		return errors.New("the URL has no host: give one such as https://127.0.0.1:8443")
	case c.URL.Scheme != "http" && c.URL.Scheme != "https":
		return fmt.Errorf("the URL's scheme is %q: use http or https", c.URL.Scheme)
	case c.Protocol != HTTP1 && c.Protocol != HTTP2:
		return fmt.Errorf("the protocol is %q: use %q or %q", c.Protocol, HTTP1, HTTP2)
	case len(c.Addresses) == 0:
		return errors.New("there is no address to dial: give host:port")
	}
	return nil
}

// Conn is one connection. Over HTTP/2 its methods are safe for concurrent use;
// over HTTP/1.1 too, but there requests go one at a time: a second Do waits.
type Conn struct {
	client  *http.ClientConn
	wire    *wire
	scheme  string
	host    string
	http2   bool
	streams int

	// turn is held by the one request under way over HTTP/1.1.
	turn chan struct{}
	// scratches has a *scratch for each request under way that can be used again.
	scratches sync.Pool

	// spent: no further request can go here, for a reason that net/http knows
	// later or does not tell. closed: Close was called.
	spent, closed atomic.Bool
}

// Dial connects: when it returns, the connection is there and, for https, the
// TLS handshake has succeeded and settled on the protocol; over HTTP/2 the
// server's first SETTINGS have come too, so that no request can exceed a limit
// that was still on its way. The deadline is ctx's, which must have one. Kind
// names the kind of its errors.
func Dial(ctx context.Context, c Config) (*Conn, error) {
	if err := c.validate(); err != nil {
		return nil, &fault{kind: failure.Dial, unsent: true, doing: "connect", err: err}
	}
	socket, err := connect(ctx, c.LocalIP, c.Addresses)
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: socket, socket: socket, ended: make(chan struct{})}
	if c.URL.Scheme == "https" {
		if w.Conn, err = handshake(ctx, socket, &c); err != nil {
			return nil, errors.Join(err, ignoreClosed(socket.Close()))
		}
	}
	return open(ctx, w, &c)
}

// open starts the protocol on a wire.
func open(ctx context.Context, w *wire, c *Config) (*Conn, error) {
	conn := &Conn{
		wire: w, scheme: c.URL.Scheme, host: c.URL.Host, http2: c.Protocol == HTTP2, streams: 1,
		turn: make(chan struct{}, 1),
	}
	conn.scratches.New = func() any { return newScratch() }
	transport := &http.Transport{
		// The wire is handed over as what dialling gave; this is called once.
		DialContext:            func(context.Context, string, string) (net.Conn, error) { return w, nil },
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeaderBytes,
		ReadBufferSize:         readBuffer,
		Protocols:              new(http.Protocols),
		HTTP2:                  &http.HTTP2Config{WriteByteTimeout: writeStall},
	}
	if conn.http2 {
		transport.Protocols.SetUnencryptedHTTP2(true)
		w.watch = &frameWatch{settled: make(chan struct{})}
	} else {
		transport.Protocols.SetHTTP1(true)
	}
	client, err := transport.NewClientConn(ctx, "http", w.RemoteAddr().String())
	if err != nil {
		return nil, errors.Join(conn.openFault(ctx, err), ignoreClosed(w.Close()))
	}
	conn.client = client
	if !conn.http2 {
		return conn, nil
	}
	if err := conn.awaitSettings(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	// A server may allow no stream for now. Its connection still takes one
	// request at a time, which then waits for the server to allow it.
	conn.streams = max(1, client.Available())
	return conn, nil
}

// awaitSettings waits until the server's first SETTINGS have been applied.
func (c *Conn) awaitSettings(ctx context.Context) error {
	select {
	case <-c.wire.watch.settled:
		return nil
	case <-ctx.Done():
		return c.openFault(ctx, errors.New("no SETTINGS came from the server"))
	case <-c.wire.ended:
	}
	if c.wire.watch.looksHTTP1() {
		return &fault{
			kind: failure.Protocol, unsent: true, doing: c.opening(),
			err: errors.New("the server answered in HTTP/1: it does not speak HTTP/2 here; use protocol http/1.1"),
		}
	}
	if err := c.wire.failed(); err != nil {
		return c.openFault(ctx, err)
	}
	return c.openFault(ctx, errors.New("what the server sent is not HTTP/2"))
}

// opening is what an error of starting the protocol says was tried.
func (c *Conn) opening() string {
	name := HTTP1
	if c.http2 {
		name = HTTP2
	}
	return fmt.Sprintf("begin %s with %s", name, c.wire.RemoteAddr())
}

// openFault is the fault of an error of starting the protocol.
func (c *Conn) openFault(ctx context.Context, err error) error {
	f := c.faultOf(ctx, err)
	f.doing, f.unsent = c.opening(), true
	return f
}

// Streams is the most requests that can be under way at once: 1 over HTTP/1.1;
// over HTTP/2 what the server's first SETTINGS allowed, or 1,000 if they did not
// say, and 1 at least. More than these wait for their turn within their own
// deadlines, as do those that the server forbids later.
func (c *Conn) Streams() int { return c.streams }

// Usable says whether another request may be given to the connection. It turns
// false, for good, when either side has closed it or is about to: after an
// HTTP/1.1 answer that ends the connection or a request that failed there, after
// GOAWAY, after a broken protocol. That alone hurts no request that is under
// way: Close when they have ended. A server may close a connection at any
// moment, so a request may fail on one that was usable just before; see Unsent.
func (c *Conn) Usable() bool {
	return !c.spent.Load() && !c.closed.Load() && !c.wire.goneAway() && c.client.Err() == nil
}

// Close ends the connection. Requests under way end as failure.CutOff. It does
// not wait for them, and may be called more than once.
func (c *Conn) Close() error {
	c.closed.Store(true)
	return c.client.Close()
}
