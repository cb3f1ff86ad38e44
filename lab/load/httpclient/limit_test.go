package httpclient

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"loadstone/lab/load/failure"
)

// startLimited starts a server of h2c that allows so many streams.
func startLimited(t *testing.T, streams int, handler http.HandlerFunc) Config {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: streams}
	server.Start()
	t.Cleanup(server.Close)
	return configFor(t, server.URL, HTTP2, nil)
}

func TestMoreRequestsThanStreamsWait(t *testing.T) {
	t.Parallel()
	const streams = 2
	var inside, served atomic.Int64
	config := startLimited(t, streams, func(w http.ResponseWriter, _ *http.Request) {
		if inside.Add(1) > streams {
			t.Error("more requests at once than streams")
		}
		served.Add(1)
		_, _ = io.WriteString(w, "ok")
		inside.Add(-1)
	})
	conn := dial(t, config)
	if got := conn.Streams(); got != streams {
		t.Errorf("got %d streams, want %d", got, streams)
	}
	var wait sync.WaitGroup
	const requests = 50
	for range requests {
		wait.Go(func() {
			if err := conn.Do(long(t), &Request{Method: "GET", Target: "/"}, &Answer{}); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if got := served.Load(); got != requests {
		t.Errorf("%d requests served, want %d", got, requests)
	}
}

func TestWaitingForAStreamEndsWithTheDeadline(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	config := startLimited(t, 1, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/first" {
			close(entered)
			<-release
		}
	})
	conn := dial(t, config)
	first := make(chan error, 1)
	go func() { first <- conn.Do(long(t), &Request{Method: "GET", Target: "/first"}, &Answer{}) }()
	<-entered
	ctx := short(t)
	var wait sync.WaitGroup
	for range 3 {
		wait.Go(func() {
			err := conn.Do(ctx, &Request{Method: "GET", Target: "/"}, &Answer{})
			if got, want := Kind(err), failure.Timeout; got != want {
				t.Errorf("got %v (%v), want %v", got, err, want)
			}
		})
	}
	wait.Wait()
	close(release)
	if err := <-first; err != nil {
		t.Errorf("the request that they waited for: %v", err)
	}
	if err := conn.Do(long(t), &Request{Method: "GET", Target: "/"}, &Answer{}); err != nil {
		t.Errorf("the connection did not go on: %v", err)
	}
}

func TestWaitingForATurnEndsWithTheContext(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	server := start(t, https1, func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-release
	})
	kept(t, server.config, dial(t, server.config), func(conn *Conn) {
		first := make(chan error, 1)
		go func() { first <- conn.Do(long(t), &Request{Method: "GET", Target: "/"}, &Answer{}) }()
		<-entered
		ctx, cancel := context.WithCancel(long(t))
		cancel()
		err := conn.Do(ctx, &Request{Method: "GET", Target: "/"}, &Answer{})
		if got, want := Kind(err), failure.CutOff; got != want || !Unsent(err) {
			t.Errorf("got %v (%v), unsent %v; want %v", got, err, Unsent(err), want)
		}
		release <- struct{}{}
		if err := <-first; err != nil {
			t.Errorf("the request under way: %v", err)
		}
	})
}

// With TLS 1.3 the client is done before the server has looked at what it wants
// of the client, so that the refusal comes later.
func TestRefusalAfterTheHandshakeIsTLS(t *testing.T) {
	t.Parallel()
	a := testAuthority(t)
	for _, protocol := range []string{HTTP1, HTTP2} {
		config := a.config(protocol)
		config.ClientAuth = tls.RequireAnyClientCert
		server := startRaw(t, config, func(conn net.Conn) { hold(conn) })
		conn, err := Dial(long(t), configFor(t, "https://"+server.address, protocol, a))
		if err == nil {
			err = conn.Do(long(t), &Request{Method: "GET", Target: "/"}, &Answer{})
			_ = conn.Close()
		}
		if got, want := Kind(err), failure.TLS; got != want {
			t.Errorf("%s: got %v (%v), want %v", protocol, got, err, want)
		}
	}
}
