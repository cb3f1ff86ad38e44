package smuggling

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// deadline bounds every wait.
const deadline = 60 * time.Second

// Upstream is a server that keeps what is sent to it, byte by byte.
type Upstream struct {
	// Address is where it listens.
	Address string

	inner   net.Listener
	serving sync.WaitGroup
	mu      sync.Mutex
	heard   []string // of each connection
}

// Listen starts one at an address, host:port, until the test ends.
func Listen(tb testing.TB, address string) *Upstream {
	tb.Helper()
	var listener net.ListenConfig
	inner, err := listener.Listen(tb.Context(), "tcp", address)
	if err != nil {
		tb.Fatal(err)
	}
	u := &Upstream{Address: inner.Addr().String(), inner: inner}
	u.serving.Go(func() {
		for {
			conn, err := inner.Accept()
			if err != nil {
				return
			}
			u.serving.Go(func() { u.serve(conn) })
		}
	})
	tb.Cleanup(func() { _ = inner.Close(); u.serving.Wait() })
	return u
}

// serve reads one request, with whatever stands behind it, and answers.
func (u *Upstream) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(deadline))
	var all bytes.Buffer
	r := bufio.NewReader(io.TeeReader(conn, &all))
	if req, err := http.ReadRequest(r); err == nil {
		_, _ = io.Copy(io.Discard, req.Body)
	}
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	_ = conn.(*net.TCPConn).CloseWrite()
	_, _ = io.Copy(io.Discard, r)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.heard = append(u.heard, all.String())
}

// Check complains of what it got, once the server in between has ended. Too little would show
// nothing: payloads is how many were sent, which must be at least so many.
func (u *Upstream) Check(tb testing.TB, payloads, least int) {
	tb.Helper()
	_ = u.inner.Close()
	u.serving.Wait()
	for _, heard := range u.heard {
		if what := ambiguous(heard); what != "" {
			tb.Errorf("the upstream got %q: %s", heard, what)
		}
	}
	tb.Logf("%d payloads, of which %d requests reached the upstream", payloads, len(u.heard))
	if payloads < least || len(u.heard) == 0 {
		tb.Errorf("%d payloads and %d requests: too few to show anything", payloads, len(u.heard))
	}
}

var (
	requestLine = regexp.MustCompile(`^(GET|HEAD|POST|PUT) /[!-~\x80-\xff]* HTTP/1\.1$`)
	headerLine  = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+: [^\\r\\n\\x00]*$")
)

// ambiguous says what another reader could take for something else in the bytes of a connection
// that should hold one request; "" for nothing.
func ambiguous(heard string) string {
	head, body, whole := strings.Cut(heard, "\r\n\r\n")
	lines := strings.Split(head, "\r\n")
	if !whole || !requestLine.MatchString(lines[0]) {
		return "its first line is " + strconv.Quote(lines[0])
	}
	lengths := 0
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		switch strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "_", "-") {
		case "transfer-encoding":
			return "it has " + strconv.Quote(line)
		case "content-length":
			lengths++
			if value != strconv.Itoa(len(body)) {
				return fmt.Sprintf("it has %q and a body of %d bytes", line, len(body))
			}
		}
		if !headerLine.MatchString(line) {
			return "it has the header " + strconv.Quote(line)
		}
	}
	if lengths > 1 || lengths == 0 && body != "" {
		return fmt.Sprintf("it has %d lengths and a body of %d bytes", lengths, len(body))
	}
	return ""
}

// Send sends the payloads to an address, several at a time, each over a connection of its own.
func Send(tb testing.TB, at string, payloads []string) {
	tb.Helper()
	var sending sync.WaitGroup
	places := make(chan struct{}, 16)
	for _, payload := range payloads {
		places <- struct{}{}
		sending.Go(func() {
			_, _ = Ask(tb, at, payload)
			<-places
		})
	}
	sending.Wait()
}

// Ask sends bytes and reads the first answer; the status is 0 if the connection was closed
// without one.
func Ask(tb testing.TB, at, request string) (status int, body string) {
	tb.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(tb.Context(), "tcp", at)
	if err != nil {
		tb.Error(err)
		return 0, ""
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(deadline)); err != nil {
		tb.Error(err)
		return 0, ""
	}
	_, _ = io.WriteString(conn, request) // who is refused early may be cut off
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			tb.Errorf("%.60q: no answer in %v", request, deadline)
		}
		return 0, ""
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(resp.Body) // cut off, perhaps
	return resp.StatusCode, string(text)
}
