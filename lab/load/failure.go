package load

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
)

// The kinds of error that a request can end with: the keys of Result.Errors.
const (
	// FailRefused: nobody listens at the target.
	FailRefused = "refused"
	// FailReset: the connection was reset while the request was under way.
	FailReset = "reset"
	// FailTimeout: no whole answer, or no connection, within the plan's Timeout.
	FailTimeout = "timeout"
	// FailEOF: the server closed the connection before a whole answer.
	FailEOF = "eof"
	// FailBadHTTP: what came back is not an HTTP/1.x answer to the request.
	FailBadHTTP = "bad_http"
	// FailDial: no connection, for another reason than those above.
	FailDial = "dial"
	// FailPortExhausted: this machine has no local port left for the target.
	FailPortExhausted = "port_exhausted"
	// FailCutOff: still under way when the time of graceful stop was over.
	FailCutOff = "cut_off"
)

// failure is a kind of error in the form that shards count: an index.
type failure uint8

const (
	succeeded failure = iota
	failRefused
	failReset
	failTimeout
	failEOF
	failBadHTTP
	failDial
	failPortExhausted
	failCutOff
	failureKinds // how many there are
)

// String is the kind's name in a Result.
func (f failure) String() string {
	return [failureKinds]string{
		"", FailRefused, FailReset, FailTimeout, FailEOF, FailBadHTTP, FailDial, FailPortExhausted, FailCutOff,
	}[f]
}

// connectFailed says whether no connection was had at all: nothing was sent.
func (f failure) connectFailed() bool {
	return f == failRefused || f == failDial || f == failPortExhausted
}

// badHTTPError is an answer that breaks the protocol.
type badHTTPError string

func (b badHTTPError) Error() string { return "not an HTTP/1.x answer: " + string(b) }

// truncated is an answer that ended too early. It is an io.ErrUnexpectedEOF.
type truncated struct{ got int64 }

func (t truncated) Error() string {
	if t.got == 0 {
		return "the server closed the connection without an answer"
	}
	return fmt.Sprintf("the server closed the connection %d bytes into its answer", t.got)
}

func (t truncated) Is(target error) bool { return target == io.ErrUnexpectedEOF }

// classifyExchange names the kind of an error on an open connection.
func classifyExchange(err error) failure {
	if err == nil {
		return succeeded // before the variable below, which costs an allocation
	}
	var bad badHTTPError
	switch {
	case errors.As(err, &bad):
		return failBadHTTP
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return failEOF
	default:
		// ECONNRESET and EPIPE, and whatever else makes a connection unusable
		// in the middle: to the user it was torn down.
		return failReset
	}
}

// classifyDial names the kind of an error of connecting.
func classifyDial(err error) failure {
	var timeout net.Error
	switch {
	case err == nil:
		return succeeded
	case errors.Is(err, syscall.ECONNREFUSED):
		return failRefused
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return failPortExhausted
	case errors.Is(err, syscall.ECONNRESET):
		return failReset
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return failTimeout
	default:
		return failDial
	}
}
