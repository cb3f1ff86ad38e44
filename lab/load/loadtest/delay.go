package loadtest

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Delay has what one side writes arrive at the other after a time, in both directions, and
// returns when both have ended: a network between the two, whose round trip is twice the
// time. It closes both.
func Delay(a, b net.Conn, by time.Duration) {
	var both sync.WaitGroup
	both.Go(func() { carry(a, b, by) })
	both.Go(func() { carry(b, a, by) })
	both.Wait()
}

// carry is one direction. The end is carried, too.
func carry(to, from net.Conn, by time.Duration) {
	type piece struct {
		data []byte
		at   time.Time
	}
	under := make(chan piece, 1000) // way: more of them is a window that is full
	var writing sync.WaitGroup
	writing.Go(func() {
		for p := range under {
			time.Sleep(time.Until(p.at))
			if _, err := to.Write(p.data); err != nil {
				_ = from.Close() // the reader ends, and with it this
			}
		}
		_ = to.Close()
	})
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			under <- piece{append([]byte(nil), buffer[:n]...), time.Now().Add(by)}
		}
		if err != nil {
			break
		}
	}
	close(under)
	writing.Wait()
}

// FarAway returns the address of a proxy in front of another address, from which that is a
// round trip away.
func FarAway(tb testing.TB, address string, roundTrip time.Duration) string {
	tb.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				var dialer net.Dialer
				far, err := dialer.DialContext(ctx, "tcp", address)
				if err != nil {
					_ = near.Close()
					return
				}
				context.AfterFunc(ctx, func() { closeAll(near, far) })
				Delay(near, far, roundTrip/2)
			})
		}
	})
	tb.Cleanup(func() {
		cancel()
		closeAll(listener)
		all.Wait()
	})
	return listener.Addr().String()
}

func closeAll(all ...io.Closer) {
	for _, c := range all {
		_ = c.Close() // nothing under way is of use
	}
}
