package loadtest

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Link is what all connections of a user share on their way to them: it carries so many bytes a second, one answer's after the
// other's. A nil Link carries any number at once.
type Link struct {
	rate float64
	mu   sync.Mutex
	free time.Time // when it has carried what it was given
}

// NewLink returns a link that carries so many bytes a second.
func NewLink(bytesPerSecond float64) *Link { return &Link{rate: bytesPerSecond} }

// carries returns when so many more bytes will have passed.
func (l *Link) carries(n int) time.Time {
	now := time.Now()
	if l == nil {
		return now
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(time.Duration(float64(n) / l.rate * float64(time.Second)))
	return l.free
}

// Delay has what one side writes arrive at the other after a time, in both directions, and
// returns when both have ended: a network between the two, whose round trip is twice the
// time. What b writes goes over the link. It closes both.
func Delay(a, b net.Conn, by time.Duration, link *Link) {
	var both sync.WaitGroup
	both.Go(func() { carry(a, b, by, link) })
	both.Go(func() { carry(b, a, by, nil) })
	both.Wait()
}

// carry is one direction. The end is carried, too.
func carry(to, from net.Conn, by time.Duration, link *Link) {
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
			under <- piece{append([]byte(nil), buffer[:n]...), link.carries(n).Add(by)}
		}
		if err != nil {
			break
		}
	}
	close(under)
	writing.Wait()
}

// FarAway returns the address of a proxy in front of another address, from which that is a
// round trip away, over a link that all connections to it share.
func FarAway(tb testing.TB, address string, roundTrip time.Duration, link *Link) string {
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
				Delay(near, far, roundTrip/2, link)
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
