package load

import (
	"context"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
)

func TestClassifyDial(t *testing.T) {
	t.Parallel()
	wrap := func(err error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", err)}
	}
	tests := []struct {
		err  error
		want string
	}{
		{wrap(syscall.ECONNREFUSED), FailRefused},
		{wrap(syscall.EADDRNOTAVAIL), FailPortExhausted},
		{wrap(syscall.ECONNRESET), FailReset},
		{wrap(syscall.ETIMEDOUT), FailTimeout},
		{wrap(os.ErrDeadlineExceeded), FailTimeout},
		{context.DeadlineExceeded, FailTimeout},
		{wrap(syscall.ENETUNREACH), FailDial},
		{wrap(syscall.EMFILE), FailDial},
		{&net.DNSError{Err: "no such host", IsNotFound: true}, FailDial},
		{&net.DNSError{Err: "slow", IsTimeout: true}, FailTimeout},
	}
	for _, test := range tests {
		if got := classifyDial(test.err).String(); got != test.want {
			t.Errorf("%v: got %s, want %s", test.err, got, test.want)
		}
	}
}

func TestClassifyExchange(t *testing.T) {
	t.Parallel()
	tests := []struct {
		err  error
		want string
	}{
		{nil, ""},
		{truncated{}, FailEOF},
		{fmt.Errorf("read: %w", truncated{got: 5}), FailEOF},
		{badHTTPError("x"), FailBadHTTP},
		{syscall.ECONNRESET, FailReset},
		{syscall.EPIPE, FailReset},
		{net.ErrClosed, FailReset},
	}
	for _, test := range tests {
		if got := classifyExchange(test.err).String(); got != test.want {
			t.Errorf("%v: got %s, want %s", test.err, got, test.want)
		}
	}
}
