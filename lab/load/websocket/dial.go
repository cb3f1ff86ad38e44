package websocket

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"

	"github.com/gorilla/websocket"

	"loadstone/lab/load/failure"
	"loadstone/lab/load/httpclient"
)

// The buffers of a connection, in bytes. The one for reading only has to hold a
// control frame: what is read from the kernel at once is a chunk.
const readBuffer = 256

// The stages of connecting, which say what an error means.
type stage int

const (
	stageDial stage = iota
	stageTLS
	stageHandshake
)

// attempt is one connect.
type attempt struct {
	group *Group
	from  netip.Addr
	slow  bool
	stage stage
	sock  *socket
	undo  func() bool // keeps the end of the context from closing sock
}

// connect opens a connection for c, and completes out with how that ended.
func (g *Group) connect(c *client, out *Outcome) (*link, error) {
	ctx, cancel := context.WithTimeout(g.dialling, g.config.Timeout)
	defer cancel()
	a := &attempt{group: g, slow: c.index >= g.config.Clients-g.config.SlowClients, undo: func() bool { return true }}
	if g.config.LocalIP != nil {
		a.from = g.config.LocalIP(c.index)
	}
	dialer := websocket.Dialer{
		NetDialContext:    a.dial,
		NetDialTLSContext: a.dialTLS,
		ReadBufferSize:    readBuffer,
		WriteBufferSize:   g.writeBuffer, // a whole message: a frame is never split
		WriteBufferPool:   &g.writes,
		Subprotocols:      g.config.Subprotocols,
	}
	ws, answer, err := dialer.DialContext(ctx, g.urls[c.index%len(g.urls)], g.header)
	if answer != nil {
		_ = answer.Body.Close() // it is in memory
		out.Status = answer.StatusCode
	}
	if err == nil {
		err = g.checkAnswer(answer, ws)
	}
	if !a.undo() && err == nil {
		err = ctx.Err() // the socket is being closed
	}
	if err != nil {
		if ws != nil {
			_ = ws.Close()
		}
		out.Failed = classifyConnect(ctx, a.stage, out.Status, err)
		return nil, fmt.Errorf("connect: %w", describe(out, err))
	}
	return g.newLink(c, ws, a.sock), nil
}

// newLink readies an open connection.
func (g *Group) newLink(c *client, ws *websocket.Conn, sock *socket) *link {
	sock.open = true
	l := &link{ws: ws, sock: sock}
	sock.onFlushed(func() {
		l.payPong()
		if c.talker != nil {
			g.check(c.talker.resume(g.config.Now(), false))
		}
	})
	ws.SetReadLimit(MessageLimit)
	ws.SetPingHandler(l.answer)
	return l
}

// errUnasked is a server that answers the handshake with what nobody offered.
var errUnasked = errors.New("the server chose what the handshake did not offer")

// checkAnswer looks at what the library leaves to its user (RFC 6455, 4.1).
func (g *Group) checkAnswer(answer *http.Response, ws *websocket.Conn) error {
	if extension := answer.Header.Get("Sec-WebSocket-Extensions"); extension != "" {
		return fmt.Errorf("%w: extension %q", errUnasked, extension)
	}
	if p := ws.Subprotocol(); p != "" && !slices.Contains(g.config.Subprotocols, p) {
		return fmt.Errorf("%w: subprotocol %q", errUnasked, p)
	}
	return nil
}

// dial opens the TCP connection.
func (a *attempt) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := httpclient.Dialer(a.from)
	if a.slow {
		d.Control = smallBuffer
	}
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%T is no TCP connection", conn), conn.Close())
	}
	if a.sock, err = a.group.newSocket(tcp, a.slow); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	// The library looks at the context no more once it has a connection.
	a.undo = context.AfterFunc(ctx, func() { _ = tcp.Close() })
	a.stage = stageHandshake
	return a.sock, nil
}

// dialTLS opens the TCP connection and makes it a TLS one.
func (a *attempt) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	plain, err := a.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	a.stage = stageTLS
	config := a.group.tls.Clone()
	if config.ServerName == "" {
		if config.ServerName, _, err = net.SplitHostPort(address); err != nil {
			return nil, errors.Join(err, plain.Close())
		}
	}
	// What TLS adds is not counted, so not the socket counts but what is above.
	a.sock.count = &counters{}
	conn := tls.Client(plain, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, plain.Close())
	}
	a.stage = stageHandshake
	return &counted{Conn: conn, count: &a.group.count}, nil
}

// counted is a TLS connection whose bytes are counted as the application's.
type counted struct {
	*tls.Conn

	count *counters
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.count.receivedBytes.Add(uint64(n))
	return n, err
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.count.sentBytes.Add(uint64(n))
	return n, err
}

// smallBuffer makes a socket's receive buffer small, before it connects and so
// before it offers the server a window.
func smallBuffer(_, _ string, raw syscall.RawConn) error {
	var failed error
	err := raw.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, slowBuffer)
	})
	return errors.Join(err, failed)
}

// classifyConnect names the kind of a failed connect.
func classifyConnect(ctx context.Context, at stage, status int, err error) failure.Kind {
	var timeout net.Error
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return failure.Timeout
	case ctx.Err() != nil:
		return failure.CutOff
	case at == stageDial:
		return failure.OfDial(err)
	case at == stageTLS:
		return failure.TLS
	case status == http.StatusSwitchingProtocols:
		return failure.Protocol
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return failure.Reset
	case status == 0 && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)):
		return failure.EOF
	default:
		return failure.BadHTTP
	}
}

// describe says in words what the library's error does not.
func describe(out *Outcome, err error) error {
	switch {
	case out.Failed == failure.CutOff:
		return errCutOff
	case errors.Is(err, websocket.ErrBadHandshake) && out.Status == http.StatusSwitchingProtocols:
		return errors.New("the server's Upgrade, Connection or Sec-WebSocket-Accept header does not answer the handshake")
	case errors.Is(err, websocket.ErrBadHandshake):
		return fmt.Errorf("the server answered the handshake with %d %s in place of 101", out.Status, http.StatusText(out.Status))
	default:
		return err
	}
}
