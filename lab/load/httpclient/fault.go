package httpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"loadstone/lab/load/failure"
)

// fault is an error with its kind.
type fault struct {
	kind   failure.Kind
	unsent bool // nothing of the request was written
	// unprocessed: the server said that it did not look at it.
	unprocessed bool
	doing       string
	err         error
}

func (f *fault) Error() string { return f.doing + ": " + f.err.Error() }

func (f *fault) Unwrap() error { return f.err }

// Kind names the one kind that an error of Dial or Do is counted as; None for
// nil.
//
//	refused         nobody listens at any of the addresses
//	port_exhausted  no local port or file descriptor is left
//	dial            no connection for another reason
//	tls             the handshake failed, the certificate is not to be trusted,
//	                or ALPN did not settle on the protocol
//	timeout         ctx's deadline passed
//	cut_off         ctx was cancelled, or Close came first
//	reset           the connection was reset
//	eof             the server closed the connection before a whole answer, or
//	                the body is shorter than its Content-Length
//	bad_http        the answer is not HTTP/1.1, or the request cannot be sent
//	protocol        HTTP/2: RST_STREAM, GOAWAY, broken frames or headers
func Kind(err error) failure.Kind {
	var f *fault
	switch {
	case err == nil:
		return failure.None
	case errors.As(err, &f):
		return f.kind
	case errors.Is(err, context.Canceled):
		return failure.CutOff
	default:
		return failure.OfDial(err)
	}
}

// Unsent says whether an error of Do came before anything of the request was
// written, so that to send it on another connection would not be to send it
// twice. That happens when a server closes an idle connection, or says GOAWAY,
// just as it is used. It may be false where nothing was written, never the other way.
func Unsent(err error) bool {
	var f *fault
	return errors.As(err, &f) && f.unsent
}

// Unprocessed says whether the server told, in saying goodbye in order (GOAWAY
// without an error), that it has not looked at the request and will not
// (RFC 9113, section 6.8). Every HTTP/2 client then sends it again, on another
// connection, so its user sees no error.
func Unprocessed(err error) bool {
	var f *fault
	return errors.As(err, &f) && f.unprocessed
}

// contextKind is the kind of an error that ctx brought about: None if it did not.
func contextKind(ctx context.Context, err error) failure.Kind {
	switch {
	case errors.Is(ctx.Err(), context.Canceled), errors.Is(err, context.Canceled):
		return failure.CutOff
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded):
		return failure.Timeout
	default:
		return failure.None
	}
}

// doing is what an error of Do says was tried.
func doing(r *Request) string { return r.Method + " " + r.Target }

// requestFault is the error of a request.
func (c *Conn) requestFault(ctx context.Context, r *Request, err error, unsent bool) error {
	f := c.faultOf(ctx, err)
	f.doing, f.unsent = doing(r), f.unsent || unsent
	return f
}

// streamError has the fields of net/http's own, which is not exported and
// converts itself to any such type.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (s streamError) Error() string {
	by := "the server broke the protocol on this stream"
	if s.Cause != nil && s.Cause.Error() == "received from peer" {
		by = "the server reset the stream"
	} else if s.Cause != nil {
		by += " (" + s.Cause.Error() + ")"
	}
	return by + ": " + codeName(s.Code)
}

// codes are the error codes of HTTP/2 (RFC 9113, 7).
var codes = [...]string{
	"NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED",
	"FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM",
	"INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
}

func codeName(code uint32) string {
	if int(code) < len(codes) {
		return codes[code]
	}
	return fmt.Sprintf("error code %d", code)
}

// The errors that net/http says in words only: those of an HTTP/2 connection that
// was not given the request, of one that was closed under it, of an HTTP/1.1
// connection that the server closed, or that was given up because a request was only
// known to be written long after its answer had come, and how those of a request begin
// that cannot be sent.
const (
	textUnusable = "http2: client conn not usable"
	textClosed   = "http2: client conn is closed"
	textUnborn   = "http2: client conn could not be established"
	textForced   = "http2: client connection force closed via ClientConn.Close"
	textIdle     = "http: server closed idle connection"
	textGivenUp  = "http: persistConn.readLoop exiting"
	// A stream beyond the last one that a GOAWAY without an error names.
	textGraceful = "graceful shutdown GOAWAY"

	textBadHeader = "http: invalid header"
	textBadMethod = "http: invalid method"
)

// faultOf finds out the kind of an error on an open connection, and says in
// words what it was.
func (c *Conn) faultOf(ctx context.Context, err error) *fault {
	if kind := contextKind(ctx, err); kind != failure.None {
		return &fault{kind: kind, err: fmt.Errorf("no whole answer in time: %w", err)}
	}
	if c.closed.Load() {
		return &fault{kind: failure.CutOff, err: errors.New("the generator closed the connection")}
	}
	text := err.Error()
	switch {
	case text == textUnusable, text == textClosed, text == textUnborn:
		f := c.lost(err)
		f.unsent = true
		return f
	case text == textForced:
		return c.lost(err)
	case text == textGivenUp: // net/http says more where anything of the request was written
		c.spent.Store(true)
		return &fault{kind: failure.EOF, unsent: true, err: fmt.Errorf("the connection was given up before: %w", err)}
	case strings.HasPrefix(text, textBadHeader), strings.HasPrefix(text, textBadMethod):
		return &fault{kind: failure.BadHTTP, unsent: true, err: fmt.Errorf("the request cannot be sent: %w", err)}
	}
	return c.answerFault(err)
}

// lost is the fault of a request that found its HTTP/2 connection gone: why it
// went is known below.
func (c *Conn) lost(err error) *fault {
	c.spent.Store(true)
	if below := c.wire.failed(); below != nil && !c.wire.goneAway() {
		return c.answerFault(below)
	}
	return c.answerFault(err)
}

// isEnd says whether the error is that no more bytes came.
func isEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// answerFault is the fault of an error that the server brought about.
func (c *Conn) answerFault(err error) *fault {
	var stream streamError
	var operation *net.OpError
	isOperation := errors.As(err, &operation)
	switch {
	case errors.As(err, &stream):
		if stream.Code == 1 {
			// net/http gives no further request to a connection on which a stream
			// ended with PROTOCOL_ERROR, and does not say so.
			c.spent.Store(true)
		}
		return &fault{kind: failure.Protocol, err: stream}
	case isOperation && (operation.Op == "remote error" || operation.Op == "local error"):
		// That is how crypto/tls reports an alert after the handshake, such as one
		// for a client's certificate that is missing.
		return &fault{kind: failure.TLS, err: err}
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return &fault{kind: failure.Reset, err: fmt.Errorf("the connection was reset: %w", err)}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &fault{kind: failure.Timeout, err: fmt.Errorf("the server takes no more bytes: %w", err)}
	case c.wire.goneAway() && !errors.Is(err, io.ErrUnexpectedEOF):
		return &fault{
			kind: failure.Protocol, unprocessed: strings.Contains(err.Error(), textGraceful),
			err: fmt.Errorf("the server sent GOAWAY, %s: %w", codeName(c.wire.watch.goAwayCode.Load()), err),
		}
	case isEnd(err), strings.Contains(err.Error(), textIdle), !c.http2 && isEnd(c.wire.failed()):
		// net/http calls half a header malformed. If the end had been reached by
		// then it is only short.
		return &fault{kind: failure.EOF, err: fmt.Errorf("the server closed the connection, or ended the answer, before all of it had come: %w", err)}
	case c.http2:
		return &fault{kind: failure.Protocol, err: fmt.Errorf("not HTTP/2: %w", err)}
	default:
		return &fault{kind: failure.BadHTTP, err: fmt.Errorf("not an HTTP/1.1 answer: %w", err)}
	}
}
