// Package failure names what a request can end as when it does not end with an
// answer. The kinds are the keys of a result's errors, so they never change
// their names.
package failure

import (
	"errors"
	"net"
	"os"
	"syscall"
)

// Kind is a kind of error in the form that recorders count: an index.
type Kind uint8

// The kinds. None is success.
const (
	None Kind = iota
	// Refused: nobody listens at the target.
	Refused
	// Reset: the connection was reset while the request was under way.
	Reset
	// Timeout: no whole answer, or no connection, within the plan's Timeout.
	Timeout
	// EOF: the server closed the connection before it had answered, or within
	// the header of its answer.
	EOF
	// BadHTTP: what came back is not an HTTP/1.x answer to the request.
	BadHTTP
	// Dial: no connection, for another reason than those above and below.
	Dial
	// PortExhausted: this machine has no local port, or no file descriptor,
	// left for another connection.
	PortExhausted
	// CutOff: still under way when the time of graceful stop was over.
	CutOff
	// TLS: the handshake failed, or the certificate is not to be trusted.
	TLS
	// Protocol: an HTTP/2 or WebSocket peer broke the protocol, or ended the
	// stream or the connection with an error code.
	Protocol
	// NoValue: the answer came, but not the value that a later step needs, so
	// the iteration ended there.
	NoValue
	// Lost: a WebSocket message that was sent and did not arrive in time at a
	// client that should have had it.
	Lost
	// ShortBody: the answer's body ended before its length, or its last chunk.
	ShortBody
	// Closed: the server ended a WebSocket client's connection, or it was lost.
	Closed
	// NotAccepted: the server said that it does not accept a WebSocket message.
	NotAccepted

	// Kinds is how many there are, None included.
	Kinds
)

// String is the kind's name in a result; empty for None.
func (k Kind) String() string {
	return [Kinds]string{
		"", "refused", "reset", "timeout", "eof", "bad_http", "dial", "port_exhausted", "cut_off",
		"tls", "protocol", "no_value", "lost", "short_body", "ws_closed", "ws_refused",
	}[k]
}

// ConnectFailed says whether no connection was had at all: nothing was sent.
func (k Kind) ConnectFailed() bool {
	return k == Refused || k == Dial || k == PortExhausted || k == TLS
}

// OfDial names the kind of an error of connecting.
func OfDial(err error) Kind {
	var timeout net.Error
	switch {
	case err == nil:
		return None
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refused
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return PortExhausted
	case errors.Is(err, syscall.ECONNRESET):
		return Reset
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT), errors.As(err, &timeout) && timeout.Timeout():
		return Timeout
	default:
		return Dial
	}
}
