package socket

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/nettest"
)

// pair returns two ends of a TCP connection, both direct.
func pair() (a, b net.Conn, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, nil, err
	}
	var d net.Dialer
	a, err = Dialing(d.DialContext)(context.Background(), "tcp", listener.Addr().String())
	if err != nil {
		return nil, nil, nil, errors.Join(err, listener.Close())
	}
	b, err = listener.Accept()
	if err != nil {
		return nil, nil, nil, errors.Join(err, listener.Close())
	}
	b = Direct(b)
	return a, b, func() { _, _, _ = a.Close(), b.Close(), listener.Close() }, nil
}

func TestIsAConnection(t *testing.T) {
	t.Parallel()
	nettest.TestConn(t, pair)
}

// mustPair is pair for tests.
func mustPair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	a, b, stop, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return a, b
}

func TestMoreThanASocketTakesAtOnce(t *testing.T) {
	t.Parallel()
	a, b := mustPair(t)
	sent := bytes.Repeat([]byte("0123456789abcdef"), 2<<20) // 32 MiB
	wrote := make(chan error, 1)
	go func() {
		n, err := a.Write(sent)
		if err == nil && n != len(sent) {
			err = io.ErrShortWrite
		}
		wrote <- errors.Join(err, a.Close())
	}()
	got, err := io.ReadAll(b)
	if err := errors.Join(err, <-wrote); err != nil || sha256.Sum256(got) != sha256.Sum256(sent) {
		t.Errorf("%d bytes of %d arrived, %v", len(got), len(sent), err)
	}
}

func TestErrorsAreThoseOfNet(t *testing.T) {
	t.Parallel()
	a, b := mustPair(t)
	if err := a.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if _, err := a.Read(make([]byte, 1)); !errors.As(err, &timeout) || !timeout.Timeout() || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the deadline: %v", err)
	}
	if err := a.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	tcp, ok := b.(interface{ SetLinger(sec int) error })
	if !ok {
		t.Fatalf("a %T has no SetLinger", b)
	}
	if err := errors.Join(tcp.SetLinger(0), b.Close()); err != nil { // a reset
		t.Fatal(err)
	}
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after a reset: %v", err)
	}
	if _, err := a.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("write after a reset: %v", err)
	}
	if _, err := b.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestReadAndWriteAllocateNothing(t *testing.T) {
	a, b := mustPair(t)
	in, out := make([]byte, 16), []byte("0123456789abcdef")
	if n := testing.AllocsPerRun(100, func() {
		if _, err := a.Write(out); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(b, in); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("a write and a read allocate %v times", n)
	}
}

func TestOtherConnectionsStayAsTheyAre(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if got := Direct(a); got != a {
		t.Errorf("a pipe became a %T", got)
	}
}
