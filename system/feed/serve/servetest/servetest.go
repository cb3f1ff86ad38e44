// Package servetest starts feed servers for tests.
package servetest

import (
	"context"
	"log/slog"
	"net"
	"testing"

	"loadstone/system/feed/serve"
)

// Start serves the store until the test ends, on an address of this machine, which it returns.
// The configuration is as change leaves it, which may be nil.
func Start(tb testing.TB, store string, change func(*serve.Config)) (address string) {
	tb.Helper()
	ctx, stop := context.WithCancel(context.Background())
	addresses, done := make(chan string, 1), make(chan error, 1)
	cfg := serve.DefaultConfig()
	cfg.Listen, cfg.AdminListen, cfg.Drain, cfg.Store = "127.0.0.1:0", "127.0.0.1:0", 0, store
	cfg.Listening = func(api, _ net.Addr) { addresses <- api.String() }
	if change != nil {
		change(&cfg)
	}
	go func() { done <- serve.Run(ctx, cfg, slog.New(slog.DiscardHandler)) }()
	tb.Cleanup(stop)
	select {
	case address := <-addresses:
		tb.Cleanup(func() {
			stop()
			if err := <-done; err != nil {
				tb.Errorf("the server of %s: %v", store, err)
			}
		})
		return address
	case err := <-done:
		tb.Fatal(err)
		return ""
	}
}
