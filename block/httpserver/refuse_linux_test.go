package httpserver

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// underWay returns a listener, the gate of its socket, and a client in the middle of
// its handshake. The client has done its part of that; the kernel waits for its first
// byte before it completes the connection.
func underWay(t *testing.T, network, addr string) (net.Listener, *gate, net.Conn) {
	t.Helper()
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	ln, err := lc.Listen(t.Context(), network, addr)
	if err != nil {
		t.Skipf("listen on %s: %v", addr, err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	raw, err := ln.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{raw}
	if !g.set(func(fd int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, 5) }) {
		t.Fatal("the kernel does not defer")
	}
	peer, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = peer.Close() })
	return ln, g, peer
}

// Each means keeps handshakes under way and takes nobody new.
func TestRefuseKeepsHandshakesUnderWay(t *testing.T) {
	t.Parallel()
	for name, means := range map[string]func(int) error{"bound nowhere": bindNowhere, "SYN dropped": dropSYN} {
		for network, addr := range map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0", "tcp": ":0"} {
			t.Run(name+" "+network, func(t *testing.T) {
				t.Parallel()
				ln, g, peer := underWay(t, network, addr)
				if got := g.backlog(); got != 0 {
					t.Fatalf("got %d complete connections, want 0: it is in its handshake", got)
				}
				if !g.set(means) {
					t.Fatal("the kernel does not allow it")
				}
				late, err := net.DialTimeout("tcp", ln.Addr().String(), 500*time.Millisecond)
				if err == nil {
					_ = late.Close()
					t.Error("a new connection was made")
				}
				if _, err := io.WriteString(peer, "request"); err != nil {
					t.Fatal(err)
				}
				eventually(t, "the handshake is complete", func() bool { return g.backlog() == 1 })
				conn, err := ln.Accept()
				if err != nil {
					t.Fatal(err)
				}
				if err := conn.Close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// A new client is refused, and does not wait for an answer, while the socket still
// listens for those that came before.
func TestRefuseAnswersAtOnce(t *testing.T) {
	t.Parallel()
	for network, addr := range map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0", "tcp": ":0"} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			ln, _, _ := underWay(t, network, addr)
			if _, ok := refuse(ln); !ok {
				t.Fatal("the kernel does not allow it")
			}
			late, err := net.DialTimeout("tcp", ln.Addr().String(), 10*time.Second)
			if err == nil {
				_ = late.Close()
			}
			if !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("got %v, want connection refused", err)
			}
		})
	}
}
