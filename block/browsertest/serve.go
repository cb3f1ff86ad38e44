package browsertest

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// stopTimeout bounds the end of a server, for which a handler may have to end.
const stopTimeout = 30 * time.Second

// accepted remembers the connections of a listener: browsers open some ahead of need, and the
// end of a server would wait until those have said nothing for its read timeout.
type accepted struct {
	net.Listener

	mu  sync.Mutex
	all []net.Conn
}

func (a *accepted) Accept() (net.Conn, error) {
	conn, err := a.Listener.Accept()
	if err == nil {
		a.mu.Lock()
		a.all = append(a.all, conn)
		a.mu.Unlock()
	}
	return conn, err
}

// hurry has reading end that waits for a request, or for more of one.
func (a *accepted) hurry() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, conn := range a.all {
		_ = conn.SetReadDeadline(time.Now()) // closed ones have ended
	}
}

// Serve has a handler answer on a port of its own, at the address that it returns, until the
// test ends.
func Serve(tb testing.TB, handle fasthttp.RequestHandler) (url string) {
	tb.Helper()
	var config net.ListenConfig
	l, err := config.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	conns := &accepted{Listener: l}
	server := &fasthttp.Server{Handler: handle, NoDefaultServerHeader: true, ReadTimeout: time.Minute, IdleTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- server.Serve(conns) }()
	tb.Cleanup(func() {
		// Bounded, so that a connection that does not end shows here.
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		stopped := make(chan error, 1)
		go func() { stopped <- server.ShutdownWithContext(ctx) }()
		for ended := false; !ended; {
			conns.hurry()
			select {
			case err := <-stopped:
				if ended = true; err != nil {
					tb.Errorf("stop the tests' server: %v", err)
				}
			case <-time.After(50 * time.Millisecond):
			}
		}
		_ = l.Close() // a server that was shut down before it began to serve would serve on
		if err := <-done; err != nil {
			tb.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}
