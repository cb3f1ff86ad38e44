package main

import (
	"bufio"
	"context"
	"crypto/sha1" //nolint:gosec // what RFC 6455 says, and no secret
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// body is what every server answers.
var body = []byte(strings.Repeat("x", 400))

// holdFor is how long the server "held" keeps a request.
const holdFor = 4 * time.Second

// counters are what a server counts.
type counters struct {
	requests atomic.Int64
	open     atomic.Int64
	mostOpen atomic.Int64
	delays   *delayer // of the server "delayed"; else nil
}

// counts are what a server says of itself, as JSON.
type counts struct {
	Requests int64   `json:"requests"`
	MostOpen int64   `json:"most_open"` // connections at once, of the server "sockets"
	Held     latency `json:"held"`      // how long the server "delayed" kept requests, as it measured it
}

func (c *counters) now() counts {
	n := counts{Requests: c.requests.Load(), MostOpen: c.mostOpen.Load()}
	if c.delays != nil {
		n.Held = c.delays.measured()
	}
	return n
}

// serve is a server, as a process of its own: it prints the address that it
// answers on and the one at which it tells its counters, and ends with its
// input. The kinds: "fixed" answers at once, "held" after some seconds,
// "delayed" after the delays of delays.go, "sockets" takes WebSocket connections
// and says nothing.
func serve(ctx context.Context, kind string, in io.Reader, out io.Writer) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	control, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	c := &counters{}
	if kind == "delayed" {
		c.delays = newDelayer()
	}
	answer, ok := map[string]func() error{
		"fixed":   func() error { return serveHTTP(listener, c, func() {}) },
		"held":    func() error { return serveHTTP(listener, c, func() { time.Sleep(holdFor) }) },
		"delayed": func() error { return serveHTTP(listener, c, c.delays.hold) },
		"sockets": func() error { return serveSockets(listener, c) },
	}[kind]
	if !ok {
		return fmt.Errorf("there is no server %q", kind)
	}
	ended := make(chan error, 3)
	go func() { ended <- answer() }()
	go func() {
		ended <- fasthttp.Serve(control, func(ctx *fasthttp.RequestCtx) {
			_ = json.NewEncoder(ctx).Encode(c.now()) // numbers, into memory
		})
	}()
	go func() {
		_, err := io.Copy(io.Discard, in)
		ended <- err
	}()
	if _, err := fmt.Fprintf(out, "%s %s\n", listener.Addr(), control.Addr()); err != nil {
		return err
	}
	return <-ended
}

func serveHTTP(listener net.Listener, c *counters, hold func()) error {
	server := &fasthttp.Server{Concurrency: 1 << 20, Handler: func(ctx *fasthttp.RequestCtx) {
		c.requests.Add(1)
		hold()
		ctx.SetBody(body)
	}}
	return server.Serve(listener)
}

// serveSockets takes WebSocket connections, as many as come, and holds them.
func serveSockets(listener net.Listener, c *counters) error {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close() //nolint:errcheck // it is over either way
			now := c.open.Add(1)
			for most := c.mostOpen.Load(); now > most && !c.mostOpen.CompareAndSwap(most, now); {
				most = c.mostOpen.Load()
			}
			holdSocket(conn)
			c.open.Add(-1)
		}()
	}
}

// holdSocket agrees to the upgrade and then listens until the client closes.
func holdSocket(conn net.Conn) {
	const guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11" // RFC 6455, 1.3
	request, err := http.ReadRequest(bufio.NewReaderSize(conn, 512))
	if err != nil {
		return
	}
	sum := sha1.Sum([]byte(request.Header.Get("Sec-WebSocket-Key") + guid)) //nolint:gosec // as above
	_, err = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		base64.StdEncoding.EncodeToString(sum[:]))
	frame := make([]byte, 128) // nothing but control frames comes, one at a time
	for err == nil {
		var n int
		n, err = conn.Read(frame)
		if n > 0 && frame[0]&0xf == 8 { // close: agree
			_, _ = conn.Write([]byte{0x88, 0}) // it may not wait for it
			return
		}
	}
}

// server is a running server, as the bench sees it.
type server struct {
	url     string
	control string
	cmd     *exec.Cmd
	in      io.WriteCloser
}

func (b *bench) startServer(ctx context.Context, kind string) (*server, error) {
	cmd := exec.CommandContext(ctx, b.self, "serve", kind)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &server{cmd: cmd, in: in}
	line, err := bufio.NewReader(out).ReadString('\n')
	address, control, ok := strings.Cut(strings.TrimSpace(line), " ")
	if err != nil || !ok {
		s.stop()
		return nil, fmt.Errorf("the server %s wrote %q: %w", kind, line, err)
	}
	s.url, s.control = "http://"+address+"/", "http://"+control+"/"
	return s, nil
}

// stop ends the server and waits for that.
func (s *server) stop() {
	_ = s.in.Close()
	_ = s.cmd.Wait() // it served its purpose, however it ends
}

// counts asks the server what it has counted.
func (s *server) counts(ctx context.Context) (n counts, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.control, nil)
	if err != nil {
		return n, err
	}
	client := &http.Client{Timeout: 10 * time.Second} // it has a few numbers to say
	defer client.CloseIdleConnections()
	answer, err := client.Do(request)
	if err != nil {
		return n, err
	}
	err = json.NewDecoder(answer.Body).Decode(&n)
	return n, errors.Join(err, answer.Body.Close())
}

// counted runs a tool and returns how many requests it made.
func (s *server) counted(ctx context.Context, run func() (used, error)) (used, int64, error) {
	before, err := s.counts(ctx)
	if err != nil {
		return used{}, 0, err
	}
	u, err := run()
	if err != nil {
		return u, 0, err
	}
	after, err := s.counts(ctx)
	if err == nil && after.Requests == before.Requests {
		err = errors.New("the tool made no request")
	}
	return u, after.Requests - before.Requests, err
}
