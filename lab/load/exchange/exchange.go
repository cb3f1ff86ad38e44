// Package exchange shows the requests and answers of a load as they are on the wire. It
// stands between the load generator and its targets: a listener on loopback for each
// target, which passes everything on. What is sent is so what the generator sends, and not
// what somebody else makes of the same file.
//
// It is for a look at a few requests, over HTTP/1.1 and one at a time on each connection,
// as the generator sends them. Where the target speaks TLS the listener does so in the
// generator's place.
package exchange

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"sync"
	"time"
)

// Exchange is a request and what came of it, as they were on the wire.
type Exchange struct {
	Request []byte
	// Answer is the head and the body of the answer, without what chunks add to it; empty if
	// there was none, and then Err says why.
	Answer []byte
	Took   time.Duration
	Err    error
	// Path is that of the request, and Trailer what came after the answer's body; of OpenHTTP2
	// alone.
	Path    string
	Trailer http.Header
}

// Config is where the requests go.
type Config struct {
	Target  *url.URL
	TLS     *tls.Config // for https
	Timeout time.Duration
	// Seen is called with each exchange when it is over, one at a time.
	Seen func(Exchange)
}

// Tap passes requests on and shows them.
type Tap struct {
	config   Config
	listener net.Listener
	end      func() error // in place of closing the listener, if it is set
	work     sync.WaitGroup
	mu       sync.Mutex // held while Seen is called
}

// Open begins to listen. Close ends it.
func Open(ctx context.Context, c Config) (*Tap, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("show the exchanges: %w", err)
	}
	t := &Tap{config: c, listener: l}
	t.work.Go(func() { t.accept(ctx) })
	return t, nil
}

// URL is what the generator is to load in place of the target.
func (t *Tap) URL() string {
	u := *t.config.Target
	u.Scheme, u.Host = "http", t.listener.Addr().String()
	return u.String()
}

// Close stops listening and waits until all connections have ended.
func (t *Tap) Close() error {
	end := t.listener.Close
	if t.end != nil {
		end = t.end
	}
	err := end()
	t.work.Wait()
	return err
}

func (t *Tap) accept(ctx context.Context) {
	for {
		conn, err := t.listener.Accept()
		if err != nil {
			return // it was closed
		}
		t.work.Go(func() {
			defer conn.Close() //nolint:errcheck // nobody waits for more
			t.serve(ctx, conn)
		})
	}
}

// secure is what a browser, and the generator, takes for a cookie that no plain connection
// gets: the generator's to this program is one.
var secure = regexp.MustCompile(`(?i);[ \t]*secure\b`)

// serve passes on what comes over one connection.
func (t *Tap) serve(ctx context.Context, client net.Conn) {
	var server net.Conn
	defer func() {
		if server != nil {
			_ = server.Close()
		}
	}()
	in := newWire(client)
	var out *wire
	for {
		request, err := http.ReadRequest(in.reader)
		if err != nil {
			return // it was closed
		}
		if _, err := io.Copy(io.Discard, request.Body); err != nil {
			return
		}
		e, began := Exchange{Request: in.take()}, time.Now()
		if server == nil {
			if server, e.Err = t.dial(ctx); e.Err == nil {
				out = newWire(server)
			}
		}
		var answer []byte
		if e.Err == nil {
			e.Answer, e.Err = t.pass(server, out, request, e.Request)
			answer = out.take()
		}
		e.Took = time.Since(began)
		t.mu.Lock()
		t.config.Seen(e)
		t.mu.Unlock()
		if t.config.Target.Scheme == "https" {
			answer = secure.ReplaceAll(answer, nil)
		}
		if _, err := client.Write(answer); err != nil || e.Err != nil {
			return
		}
	}
}

func (t *Tap) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, t.config.Timeout)
	defer cancel()
	u, port := t.config.Target, t.config.Target.Port()
	if u.Scheme != "https" {
		if port == "" {
			port = "80"
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	}
	if port == "" {
		port = "443"
	}
	config := t.config.TLS.Clone()
	if config.ServerName == "" {
		config.ServerName = u.Hostname()
	}
	config.NextProtos = []string{"http/1.1"}
	return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
}

// pass sends a request and reads the whole answer to it, which it returns as it is shown.
func (t *Tap) pass(server net.Conn, out *wire, request *http.Request, raw []byte) (shown []byte, err error) {
	if err := server.SetDeadline(time.Now().Add(t.config.Timeout)); err != nil {
		return nil, err
	}
	if _, err := server.Write(raw); err != nil {
		return nil, err
	}
	answer, err := http.ReadResponse(out.reader, request)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return nil, errors.New("the connection was closed before an answer")
	}
	if err != nil {
		return nil, err
	}
	head, _, _ := bytes.Cut(out.read.Bytes(), []byte("\r\n\r\n"))
	shown = append(bytes.Clone(head), "\r\n\r\n"...)
	body, err := io.ReadAll(answer.Body)
	return append(shown, body...), errors.Join(err, answer.Body.Close())
}

// wire is one direction of a connection, and what was read of it.
type wire struct {
	reader *bufio.Reader
	read   bytes.Buffer
}

func newWire(c net.Conn) *wire {
	w := &wire{}
	w.reader = bufio.NewReader(io.TeeReader(c, &w.read))
	return w
}

// take is what was read since it was last called: one message, as the other side waits for
// an answer to it.
func (w *wire) take() []byte {
	out := bytes.Clone(w.read.Bytes())
	w.read.Reset()
	return out
}
