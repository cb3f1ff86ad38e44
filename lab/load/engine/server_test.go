package engine

import (
	"bufio"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"loadstone/block/servertest"
)

// rawServer is a server under a test's control, down to the byte.
type rawServer struct {
	url      string
	accepted atomic.Int64
	listener net.Listener
	mu       sync.Mutex
	conns    map[net.Conn]bool
	all      sync.WaitGroup
}

// serveRaw calls handle for each connection, in a goroutine of its own, and
// closes the connection when it returns.
func serveRaw(tb testing.TB, handle func(c *rawConn)) *rawServer {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &rawServer{url: "http://" + listener.Addr().String(), listener: listener, conns: map[net.Conn]bool{}}
	s.all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.accepted.Add(1)
			s.mu.Lock()
			s.conns[conn] = true
			s.mu.Unlock()
			s.all.Go(func() {
				handle(&rawConn{Conn: conn, in: bufio.NewReader(conn)})
				s.drop(conn)
			})
		}
	})
	tb.Cleanup(s.close)
	return s
}

func (s *rawServer) drop(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn)
	_ = conn.Close()
}

func (s *rawServer) close() {
	_ = s.listener.Close()
	s.mu.Lock()
	for conn := range s.conns {
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.all.Wait()
}

// rawConn is one connection to a rawServer.
type rawConn struct {
	net.Conn
	in *bufio.Reader
}

// request reads the next request whole, and returns nil at the end.
func (c *rawConn) request() *http.Request {
	r, err := http.ReadRequest(c.in)
	if err != nil {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil
	}
	r.ContentLength = int64(len(body))
	return r
}

// send writes text, with | for the end of each line.
func (c *rawConn) send(text string) {
	_, _ = c.Write([]byte(wire(text)))
}

// reset ends the connection with a RST.
func (c *rawConn) reset() {
	_ = c.Conn.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

const okAnswer = "HTTP/1.1 200 OK|Content-Length: 2||ok"

// serveOK answers every request with okAnswer.
func serveOK(tb testing.TB) *rawServer {
	return serveRaw(tb, func(c *rawConn) {
		for c.request() != nil {
			c.send(okAnswer)
		}
	})
}

// closedPort returns a URL where nobody listens, and nobody will before the test has
// ended: the port is taken.
func closedPort(tb testing.TB) string {
	tb.Helper()
	_, address := servertest.Bound(tb)
	return "http://" + address
}

// fullBacklog returns the URL of a listener that accepts nothing and whose
// queue is full: whoever else connects waits in vain.
func fullBacklog(tb testing.TB) string {
	tb.Helper()
	fd, address := servertest.Bound(tb)
	if err := syscall.Listen(fd, 0); err != nil {
		tb.Fatal(err)
	}
	for range 10 {
		conn, err := net.DialTimeout("tcp", address, 100*time.Millisecond)
		if err != nil {
			return "http://" + address
		}
		tb.Cleanup(func() { _ = conn.Close() })
	}
	tb.Fatal("the queue of a listener does not fill up")
	return ""
}

// pemOf is a test server's certificate, as a file of authorities has it.
func pemOf(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}
