package openapitest

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"loadstone/block/httpserver"
)

// exchangeTimeout bounds an exchange, so that a test does not hang.
const exchangeTimeout = time.Minute

// Serve has a server answer on a port of its own of this machine, at the address that it
// returns, until the test ends. It sets Addr and Drain.
func Serve(tb testing.TB, cfg httpserver.Config) (addr string) {
	tb.Helper()
	cfg.Addr, cfg.Drain = "127.0.0.1:0", 0
	server, err := httpserver.Listen(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	tb.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			tb.Errorf("server: %v", err)
		}
	})
	return server.Addr().String()
}

// Exchange sends a request as it is, over a connection of its own, and returns the method and
// the target of its line with the answer.
func Exchange(tb testing.TB, addr, raw string) (method, target string, got Answer) {
	tb.Helper()
	conn, err := (&net.Dialer{}).DialContext(tb.Context(), "tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // what matters has been read
	if err := conn.SetDeadline(time.Now().Add(exchangeTimeout)); err != nil {
		tb.Fatal(err)
	}
	// A refused request may be answered before it has been sent whole.
	_, _ = io.WriteString(conn, raw)
	line := append(strings.SplitN(strings.SplitN(raw, "\r\n", 2)[0], " ", 3), "", "")
	response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: line[0]})
	if err != nil {
		tb.Fatalf("request %.60q: %v", raw, err)
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close() // read to its end
	if err != nil {
		tb.Fatalf("request %.60q: %v", raw, err)
	}
	return line[0], line[1], Answer{Status: response.StatusCode, Header: response.Header, Body: string(body)}
}
