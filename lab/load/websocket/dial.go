package websocket

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"loadstone/block/websocket"
	"loadstone/lab/load/failure"
	"loadstone/lab/load/httpclient"
)

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
	tcp   *net.TCPConn
	sock  *socket // nil for what a loop will read
}

// errUnasked is a server that answers the handshake with what nobody offered,
// errBadHandshake one that does not answer it.
var (
	errUnasked      = errors.New("the server chose what the handshake did not offer")
	errBadHandshake = errors.New("the handshake was not answered")
)

// connect opens a connection for c, and completes out with how that ended. start has the
// connection read.
func (g *Group) connect(c *client, out *Outcome) (l *link, start func(), err error) {
	ctx, cancel := context.WithTimeout(g.dialling, g.config.Timeout)
	defer cancel()
	a := &attempt{group: g, slow: c.index >= g.config.Clients-g.config.SlowClients}
	if g.config.LocalIP != nil {
		a.from = g.config.LocalIP(c.index)
	}
	to := g.servers[c.index%len(g.servers)]
	conn, err := a.open(ctx, to)
	if err != nil {
		out.Failed = classifyConnect(ctx, a.stage, 0, err)
		return nil, nil, fmt.Errorf("connect: %w", describe(out, err))
	}
	undo := context.AfterFunc(ctx, func() { _ = a.tcp.Close() })
	first, status, err := g.handshake(conn, to, c.values.Load())
	out.Status = status
	if !undo() && err == nil {
		err = ctx.Err() // the socket is being closed
	}
	if err == nil {
		l, start, err = a.link(c, conn, first)
	}
	if err != nil {
		_ = conn.Close()
		out.Failed = classifyConnect(ctx, a.stage, out.Status, err)
		return nil, nil, fmt.Errorf("connect: %w", describe(out, err))
	}
	return l, start, nil
}

// link makes a link of an open connection.
func (a *attempt) link(c *client, conn net.Conn, first []byte) (*link, func(), error) {
	g := a.group
	l := &link{client: c, parser: websocket.Parser{OfServer: true}}
	if a.sock != nil {
		l.wire = &pumped{conn, a.sock}
		a.sock.onFlushed(l.flushed)
		return l, func() { g.work.Go(func() { l.pump(conn, first) }) }, nil
	}
	// The loop has a descriptor of its own: as long as the runtime's poller knows one, it is
	// woken for all that comes.
	fd, err := ownDescriptor(a.tcp)
	if err != nil {
		return nil, nil, err
	}
	_ = conn.Close() // the duplicate lives on
	s := &stream{loop: g.loops[c.index%len(g.loops)], link: l, fd: fd, read: first}
	l.wire = s
	return l, func() { s.loop.start(s) }, nil
}

// ownDescriptor returns another descriptor of a connection.
func ownDescriptor(conn *net.TCPConn) (fd int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	if refused := raw.Control(func(old uintptr) { fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) }); refused != nil {
		return 0, refused
	}
	return fd, err
}

// open opens the TCP connection, and makes it a TLS one where that is asked for.
func (a *attempt) open(ctx context.Context, to server) (net.Conn, error) {
	d := httpclient.Dialer(a.from)
	if a.slow {
		d.Control = smallBuffer
	}
	conn, err := d.DialContext(ctx, "tcp", to.address)
	if err != nil {
		return nil, err
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%T is no TCP connection", conn), conn.Close())
	}
	a.tcp, a.stage = tcp, stageHandshake
	if !a.slow && !to.secure {
		return tcp, nil
	}
	if a.sock, err = a.group.newSocket(tcp, a.slow); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if !to.secure {
		return a.sock, nil
	}
	a.stage = stageTLS
	config := a.group.tls.Clone()
	if config.ServerName == "" {
		config.ServerName = to.name
	}
	// What TLS adds is not counted, so not the socket counts but what is above.
	a.sock.count = &counters{}
	secure := tls.Client(a.sock, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	a.stage = stageHandshake
	return &counted{Conn: secure, count: &a.group.count}, nil
}

// mostHandshake bounds what a client reads of the answer to its handshake, in
// bytes: a server that never ends its head must not fill the memory.
const mostHandshake = 64 << 10

// errLongHandshake is an answer whose head does not end.
var errLongHandshake = errors.New("the answer to the handshake is longer than 64 KiB")

// bounded reads so many bytes at most.
type bounded struct {
	io.Reader

	left int
	read int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errLongHandshake
	}
	n, err := b.Reader.Read(p[:min(len(p), b.left)])
	b.left -= n
	b.read += n
	return n, err
}

// handshake asks for the upgrade, and reads and checks the answer (RFC 6455, 4.1). It
// returns what came behind it.
func (g *Group) handshake(conn net.Conn, to server, v *values) (first []byte, status int, err error) {
	var key [16]byte
	if _, err := rand.Read(key[:]); err != nil {
		return nil, 0, err
	}
	nonce := base64.StdEncoding.EncodeToString(key[:])
	request := g.request(to, v, nonce)
	in := &bounded{Reader: conn, left: mostHandshake}
	if _, plain := conn.(*net.TCPConn); plain { // else the socket counts
		defer func() {
			g.count.sentBytes.Add(uint64(len(request)))
			g.count.receivedBytes.Add(uint64(in.read))
		}()
	}
	if _, err := conn.Write(request); err != nil {
		return nil, 0, err
	}
	r := bufio.NewReaderSize(in, 1<<10)
	answer, err := http.ReadResponse(r, &http.Request{Method: http.MethodGet})
	if err != nil {
		return nil, 0, err
	}
	_ = answer.Body.Close()
	if err := knownStatus(answer.StatusCode); err != nil {
		return nil, 0, err
	}
	h := answer.Header
	switch {
	case answer.StatusCode != http.StatusSwitchingProtocols,
		!websocket.HasToken(h.Get("Upgrade"), "websocket"), !websocket.HasToken(h.Get("Connection"), "upgrade"),
		h.Get("Sec-WebSocket-Accept") != websocket.AcceptOf(nonce):
		return nil, answer.StatusCode, errBadHandshake
	case h.Get("Sec-WebSocket-Extensions") != "":
		return nil, answer.StatusCode, fmt.Errorf("%w: extension %q", errUnasked, h.Get("Sec-WebSocket-Extensions"))
	}
	if p := h.Get("Sec-WebSocket-Protocol"); p != "" && !slices.Contains(g.config.Subprotocols, p) {
		return nil, answer.StatusCode, fmt.Errorf("%w: subprotocol %q", errUnasked, p)
	}
	first, err = r.Peek(r.Buffered())
	return bytes.Clone(first), answer.StatusCode, err
}

// knownStatus refuses an answer whose status is of none of HTTP's classes (RFC 9110, 15).
func knownStatus(status int) error {
	if status < 100 || status > 599 {
		return fmt.Errorf("the server answered with status %d, and HTTP has those from 100 to 599", status)
	}
	return nil
}

// request is the handshake's.
func (g *Group) request(to server, v *values, nonce string) []byte {
	b := append([]byte("GET "), to.path...)
	b = append(b, v.text(g.path, escapePath)...)
	b = append(b, " HTTP/1.1\r\n"...)
	if !g.hasHost {
		b = append(append(append(b, "Host: "...), to.host...), "\r\n"...)
	}
	b = append(b, "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "...)
	b = append(append(b, nonce...), "\r\n"...)
	if p := g.config.Subprotocols; len(p) > 0 {
		b = append(append(append(b, "Sec-WebSocket-Protocol: "...), strings.Join(p, ", ")...), "\r\n"...)
	}
	for _, h := range g.headers {
		b = append(append(b, h.name...), ": "...)
		b = append(append(b, v.text(h.value, escapeHeader)...), "\r\n"...)
	}
	return append(b, "\r\n"...)
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
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return failure.PortExhausted // of the generator, whatever the server has said
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

// describe says in words what the error itself does not.
func describe(out *Outcome, err error) error {
	switch {
	case out.Failed == failure.CutOff:
		return errCutOff
	case errors.Is(err, errBadHandshake) && out.Status == http.StatusSwitchingProtocols:
		return errors.New("the server's Upgrade, Connection or Sec-WebSocket-Accept header does not answer the handshake")
	case errors.Is(err, errBadHandshake):
		return fmt.Errorf("the server answered the handshake with %d %s in place of 101", out.Status, http.StatusText(out.Status))
	default:
		return err
	}
}
