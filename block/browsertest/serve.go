package browsertest

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// stopTimeout bounds the end of a server: some more than its read timeout.
const stopTimeout = 10 * time.Second

// Serve has a handler answer on a port of its own, at the address that it returns, until the
// test ends.
func Serve(tb testing.TB, handle fasthttp.RequestHandler) (url string) {
	tb.Helper()
	var config net.ListenConfig
	l, err := config.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	// Browsers open connections ahead of need; the end waits for those until they have
	// been read from for a second.
	server := &fasthttp.Server{Handler: handle, NoDefaultServerHeader: true, ReadTimeout: time.Second, IdleTimeout: time.Second}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	tb.Cleanup(func() {
		// Bounded, so that a connection that does not end shows here.
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		if err := server.ShutdownWithContext(ctx); err != nil {
			tb.Errorf("stop the tests' server: %v", err)
		}
		_ = l.Close() // a server that was shut down before it began to serve would serve on
		if err := <-done; err != nil {
			tb.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}
