package httpclient

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"loadstone/lab/load/failure"
)

// onEvery runs a test over each protocol.
func onEvery(t *testing.T, test func(t *testing.T, way string)) {
	t.Helper()
	for _, way := range everyWay() {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			test(t, way)
		})
	}
}

func TestDoSendsWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	onEvery(t, func(t *testing.T, way string) {
		type seen struct {
			proto, method, target, host, agent, length string
			many                                       []string
			accept                                     bool
			body                                       string
		}
		got := make(chan seen, 1)
		server := start(t, way, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			_, accept := r.Header["Accept-Encoding"]
			got <- seen{
				r.Proto, r.Method, r.RequestURI, r.Host, r.UserAgent(), r.Header.Get("Content-Length"),
				r.Header["X-Many"], accept, string(body),
			}
			w.Header().Set("X-Answer", "yes")
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, "made")
		})
		conn := dial(t, server.config)
		proto := "HTTP/2.0"
		if way == https1 {
			proto = "HTTP/1.1"
		}
		own := server.config.URL.Host
		for name, c := range map[string]struct {
			request Request
			want    seen
		}{
			"plain": {
				Request{Method: "GET", Target: "/"},
				seen{proto: proto, method: "GET", target: "/", host: own, agent: "loadstone"},
			},
			"target as it is": {
				Request{Method: "DELETE", Target: "/a/../b%2Fc%20d//e;f?x=1&y=%zz&?[]{}|\"é"},
				seen{proto: proto, method: "DELETE", target: "/a/../b%2Fc%20d//e;f?x=1&y=%zz&?[]{}|\"é", host: own, agent: "loadstone"},
			},
			"target that looks like a host": {
				Request{Method: "GET", Target: "//other/b%2Fc?d=//e"},
				seen{proto: proto, method: "GET", target: "//other/b%2Fc?d=//e", host: own, agent: "loadstone"},
			},
			"header": {
				Request{Method: "PUT", Target: "/p", Body: []byte("four"), Header: []Field{
					{"host", "other.example:81"}, {"user-agent", "mine"}, {"x-many", "1"}, {"X-Many", "2"}, {"Content-Length", "99"},
				}},
				seen{proto: proto, method: "PUT", target: "/p", host: "other.example:81", agent: "mine", length: "4", many: []string{"1", "2"}, body: "four"},
			},
			"host": {
				Request{Method: "GET", Target: "/", Host: "a.example", Header: []Field{{"Host", "b.example"}, {"User-Agent", ""}}},
				seen{proto: proto, method: "GET", target: "/", host: "a.example"},
			},
			"empty POST": {
				Request{Method: "POST", Target: "/"},
				seen{proto: proto, method: "POST", target: "/", host: own, agent: "loadstone", length: "0"},
			},
		} {
			c.request.WantBody, c.request.WantHeader = true, true
			conn = kept(t, server.config, conn, func(conn *Conn) {
				var a Answer
				if err := conn.Do(long(t), &c.request, &a); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if got := <-got; fmt.Sprint(got) != fmt.Sprint(c.want) {
					t.Errorf("%s: the server saw %+v, want %+v", name, got, c.want)
				}
				if a.Status != http.StatusCreated || string(a.Body) != "made" || a.Length != 4 || a.Header.Get("X-Answer") != "yes" {
					t.Errorf("%s: got %+v", name, a)
				}
			})
		}
	})
}

func TestDoTellsRequestsThatCannotBeSent(t *testing.T) {
	t.Parallel()
	onEvery(t, func(t *testing.T, way string) {
		server := start(t, way, func(http.ResponseWriter, *http.Request) {})
		conn := dial(t, server.config)
		for name, r := range map[string]Request{
			"method":       {Method: "GE T", Target: "/"},
			"CONNECT":      {Method: "CONNECT", Target: "/"},
			"blank":        {Method: "GET", Target: "/a b"},
			"no slash":     {Method: "GET", Target: "a"},
			"raw // path":  {Method: "GET", Target: "//a\"b"},
			"header name":  {Method: "GET", Target: "/", Header: []Field{{"a b", "c"}}},
			"header value": {Method: "GET", Target: "/", Header: []Field{{"a", "b\r\nc: d"}}},
			"host":         {Method: "GET", Target: "/", Host: "a/b"},
		} {
			if err := conn.Do(long(t), &r, &Answer{}); Kind(err) != failure.BadHTTP || !Unsent(err) {
				t.Errorf("%s: got %v (%v), unsent %v", name, Kind(err), err, Unsent(err))
			}
		}
		if err := conn.Do(long(t), &Request{Method: "GET", Target: "/"}, &Answer{}); err != nil {
			t.Errorf("after them: %v", err)
		}
	})
}

func TestDoFollowsNoRedirectAndUnpacksNothing(t *testing.T) {
	t.Parallel()
	onEvery(t, func(t *testing.T, way string) {
		var requests atomic.Int64
		server := start(t, way, func(w http.ResponseWriter, _ *http.Request) {
			requests.Add(1)
			w.Header().Set("Location", "/again")
			w.Header().Set("Content-Encoding", "gzip")
			w.WriteHeader(http.StatusFound)
			_, _ = io.WriteString(w, "not gzip at all")
		})
		var a Answer
		r := Request{Method: "GET", Target: "/", WantBody: true}
		if err := dial(t, server.config).Do(long(t), &r, &a); err != nil {
			t.Fatal(err)
		}
		if got := requests.Load(); got != 1 || a.Status != http.StatusFound || string(a.Body) != "not gzip at all" || a.Header != nil {
			t.Errorf("%d requests, answer %+v", got, a)
		}
	})
}

func TestDoReadsAnswersWithAndWithoutBodies(t *testing.T) {
	t.Parallel()
	big := bytes.Repeat([]byte("0123456789"), MostBody/10+100_000)
	onEvery(t, func(t *testing.T, way string) {
		server := start(t, way, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/204":
				w.WriteHeader(http.StatusNoContent)
			case "/304":
				w.WriteHeader(http.StatusNotModified)
			case "/hints":
				w.WriteHeader(http.StatusEarlyHints)
				w.WriteHeader(http.StatusEarlyHints)
				_, _ = io.WriteString(w, "after")
			case "/continue":
				body, _ := io.ReadAll(r.Body)
				_, _ = w.Write(body)
			case "/big":
				w.Header().Set("Content-Length", fmt.Sprint(len(big)))
				_, _ = w.Write(big)
			case "/pieces":
				for i := range 5 {
					_, _ = w.Write(big[i*100 : i*100+100])
					_ = http.NewResponseController(w).Flush()
				}
			case "/head":
				w.Header().Set("Content-Length", "12345")
			}
		})
		conn := dial(t, server.config)
		a := Answer{Body: []byte("left from before")}
		for _, c := range []struct {
			request Request
			status  int
			kept    []byte
			length  int
		}{
			{Request{Method: "GET", Target: "/big"}, 200, nil, len(big)},
			{Request{Method: "GET", Target: "/big", WantBody: true}, 200, big[:MostBody], len(big)},
			{Request{Method: "GET", Target: "/204", WantBody: true}, 204, nil, 0},
			{Request{Method: "GET", Target: "/304", WantBody: true}, 304, nil, 0},
			{Request{Method: "HEAD", Target: "/head", WantBody: true}, 200, nil, 0},
			{Request{Method: "GET", Target: "/pieces", WantBody: true}, 200, big[:500], 500},
			{Request{Method: "GET", Target: "/pieces"}, 200, nil, 500},
			{Request{Method: "GET", Target: "/hints", WantBody: true}, 200, []byte("after"), 5},
			{Request{Method: "GET", Target: "/", WantBody: true}, 200, nil, 0},
			{
				Request{Method: "POST", Target: "/continue", WantBody: true, Body: big[:100_000], Header: []Field{{"Expect", "100-continue"}}},
				200, big[:100_000], 100_000,
			},
		} {
			conn = kept(t, server.config, conn, func(conn *Conn) {
				if err := conn.Do(long(t), &c.request, &a); err != nil {
					t.Fatalf("%s %s: %v", c.request.Method, c.request.Target, err)
				}
				if a.Status != c.status || !bytes.Equal(a.Body, c.kept) || a.Length != int64(c.length) {
					t.Errorf("%s %s: status %d, %d bytes kept, length %d", c.request.Method, c.request.Target, a.Status, len(a.Body), a.Length)
				}
				if a.Received < a.Length || a.Sent < int64(len(c.request.Body)) || a.Received == 0 || a.Sent == 0 {
					t.Errorf("%s %s: received %d bytes, sent %d", c.request.Method, c.request.Target, a.Received, a.Sent)
				}
			})
		}
	})
}

func TestBytesAreThoseOfTheMessage(t *testing.T) {
	t.Parallel()
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
	got := make(chan int, 2)
	server := startRaw(t, testAuthority(t).config(HTTP1), func(conn net.Conn) {
		buffer := make([]byte, 4096)
		for {
			n, err := conn.Read(buffer)
			if err != nil {
				return
			}
			got <- n
			_, _ = io.WriteString(conn, answer)
		}
	})
	config := configFor(t, "https://"+server.address, HTTP1, testAuthority(t))
	conn := dial(t, config)
	for range 2 {
		conn = kept(t, config, conn, func(conn *Conn) {
			var a Answer
			if err := conn.Do(long(t), &Request{Method: "GET", Target: "/"}, &a); err != nil {
				t.Fatal(err)
			}
			if want := int64(<-got); a.Sent != want || a.Received != int64(len(answer)) {
				t.Errorf("sent %d bytes, want %d; received %d, want %d", a.Sent, want, a.Received, len(answer))
			}
		})
	}
}

func TestPlainHTTP1(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto+" "+r.RequestURI)
	}))
	t.Cleanup(server.Close)
	var a Answer
	r := Request{Method: "GET", Target: "//a?b", WantBody: true}
	if err := dial(t, configFor(t, server.URL, HTTP1, nil)).Do(long(t), &r, &a); err != nil {
		t.Fatal(err)
	}
	if got, want := string(a.Body), "HTTP/1.1 //a?b"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAnswerThatEndsTheConnection(t *testing.T) {
	t.Parallel()
	t.Run("asked for by the server", func(t *testing.T) {
		t.Parallel()
		server := start(t, https1, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
			_, _ = io.WriteString(w, "bye")
		})
		closesAfter(t, server.config, &Request{Method: "GET", Target: "/"})
	})
	for _, way := range everyWay() {
		t.Run("asked for over "+way, func(t *testing.T) {
			t.Parallel()
			server := start(t, way, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "bye") })
			closesAfter(t, server.config, &Request{Method: "GET", Target: "/", Header: []Field{{"connection", "close"}}})
		})
	}
}

// closesAfter has the connection end after r, at once and with no request lost.
func closesAfter(t *testing.T, config Config, r *Request) {
	t.Helper()
	conn := dial(t, config)
	if err := conn.Do(long(t), r, &Answer{}); err != nil {
		t.Fatal(err)
	}
	if conn.Usable() {
		t.Error("usable after an answer that ended it")
	}
	err := conn.Do(long(t), r, &Answer{})
	if err == nil || !Unsent(err) {
		t.Errorf("another request: %v; unsent: %v", err, Unsent(err))
	}
}

func TestManyStreamsAtOnce(t *testing.T) {
	t.Parallel()
	const streams, each = 100, 10
	for _, way := range []string{https2, h2c} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			var inside, most atomic.Int64
			server := start(t, way, func(w http.ResponseWriter, r *http.Request) {
				n := inside.Add(1)
				for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
				}
				// The first requests stay until all of them are here.
				for r.URL.Query().Get("n") == "0" && most.Load() < streams && r.Context().Err() == nil {
					time.Sleep(time.Millisecond)
				}
				body, _ := io.ReadAll(r.Body)
				_, _ = w.Write(body)
				inside.Add(-1)
			})
			conn := dial(t, server.config)
			if conn.Streams() < streams {
				t.Fatalf("%d streams, want %d", conn.Streams(), streams)
			}
			var wait sync.WaitGroup
			for i := range streams {
				wait.Go(func() {
					var a Answer
					for n := range each {
						body := strings.Repeat(fmt.Sprintf("%d.%d ", i, n), 50)
						r := Request{Method: "POST", Target: fmt.Sprintf("/%d?n=%d", i, n), Body: []byte(body), WantBody: true}
						if err := conn.Do(long(t), &r, &a); err != nil {
							t.Errorf("%d.%d: %v", i, n, err)
							return
						}
						if string(a.Body) != body {
							t.Errorf("%d.%d: got %.20q, want %.20q", i, n, a.Body, body)
						}
					}
				})
			}
			wait.Wait()
			if got := most.Load(); got != streams {
				t.Errorf("at most %d requests at once, want %d", got, streams)
			}
		})
	}
}

func TestStreamsAreWhatTheServerAllows(t *testing.T) {
	t.Parallel()
	server := startRaw(t, nil, func(conn net.Conn) {
		hold(begin(conn, 0, 3, 0, 0, 0, 7)) // MAX_CONCURRENT_STREAMS 7
	})
	conn := dial(t, configFor(t, "http://"+server.address, HTTP2, nil))
	if got, want := conn.Streams(), 7; got != want {
		t.Errorf("got %d, want %d", got, want)
	}
	one := start(t, https1, func(http.ResponseWriter, *http.Request) {})
	if got, want := dial(t, one.config).Streams(), 1; got != want {
		t.Errorf("over HTTP/1.1: got %d, want %d", got, want)
	}
}

// lateWrites is a connection whose writer is told late that it has written.
type lateWrites struct{ net.Conn }

func (l lateWrites) Write(p []byte) (int, error) {
	n, err := l.Conn.Write(p)
	time.Sleep(200 * time.Millisecond)
	return n, err
}

// On a machine without time to spare, net/http gives a connection up that nothing is wrong with. What
// is asked for next is no failure of the server's: it was not sent.
func TestAConnectionThatIsGivenUp(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	t.Cleanup(plain.Close)
	config := configFor(t, plain.URL, HTTP1, nil)
	var all sync.WaitGroup
	for range 200 { // the second request may come just as the connection is being given up
		all.Go(func() {
			socket, err := connect(long(t), config.LocalIP, config.Addresses)
			if err != nil {
				t.Error(err)
				return
			}
			conn, err := open(long(t), &wire{Conn: lateWrites{socket}, socket: socket, ended: make(chan struct{})}, &config)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			ask := func() error { return conn.Do(long(t), &Request{Method: "GET", Target: "/"}, &Answer{}) }
			if err := ask(); err != nil {
				t.Error(err)
			}
			if err := ask(); err != nil && !Unsent(err) {
				t.Errorf("got %v (%v), want that it was not sent", err, Kind(err))
			}
		})
	}
	all.Wait()
}

func TestRequestsOverHTTP1WaitForTheirTurn(t *testing.T) {
	t.Parallel()
	var inside atomic.Int64
	server := start(t, https1, func(w http.ResponseWriter, _ *http.Request) {
		if inside.Add(1) > 1 {
			t.Error("two requests at once")
		}
		_, _ = io.WriteString(w, "ok")
		inside.Add(-1)
	})
	conn := dial(t, server.config)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			if err := conn.Do(long(t), &Request{Method: "GET", Target: "/"}, &Answer{}); err != nil && !Unsent(err) {
				t.Error(err)
			}
		})
	}
	wait.Wait()
}

func TestDeadlineCutsOffTheRequestAlone(t *testing.T) {
	t.Parallel()
	onEvery(t, func(t *testing.T, way string) {
		cut := make(chan struct{}, 32)
		server := start(t, way, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/stall":
				<-r.Context().Done()
				cut <- struct{}{}
			case "/half":
				_, _ = io.WriteString(w, "half")
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
				cut <- struct{}{}
			default:
				_, _ = io.WriteString(w, "ok")
			}
		})
		for _, target := range []string{"/stall", "/half"} {
			conn := dial(t, server.config)
			told := false
			for within := 50 * time.Millisecond; !told && within < time.Minute; within *= 2 { // it may not get that far
				if !conn.Usable() {
					conn = dial(t, server.config)
				}
				ctx, cancel := context.WithTimeout(t.Context(), within)
				err := conn.Do(ctx, &Request{Method: "GET", Target: target}, &Answer{})
				cancel()
				if got, want := Kind(err), failure.Timeout; got != want && !Unsent(err) {
					t.Errorf("%s: got %v (%v), want %v", target, got, err, want)
				}
				select {
				case <-cut:
					told = true
				case <-time.After(2 * within):
				}
			}
			if !told {
				t.Errorf("%s: the server was not told", target)
			}
			if got, want := conn.Usable(), way != https1; got != want {
				t.Errorf("%s: usable: got %v, want %v", target, got, want)
			}
			if way == https1 {
				continue
			}
			if err := conn.Do(long(t), &Request{Method: "GET", Target: "/"}, &Answer{}); err != nil {
				t.Errorf("%s: the connection did not go on: %v", target, err)
			}
		}
	})
}

func TestCancelAndCloseCutOff(t *testing.T) {
	t.Parallel()
	onEvery(t, func(t *testing.T, way string) {
		entered := make(chan struct{}, 1)
		server := start(t, way, func(_ http.ResponseWriter, r *http.Request) {
			entered <- struct{}{}
			<-r.Context().Done()
		})
		conn := dial(t, server.config)
		ctx, cancel := context.WithCancel(long(t))
		go func() { <-entered; cancel() }()
		err := conn.Do(ctx, &Request{Method: "GET", Target: "/"}, &Answer{})
		if got, want := Kind(err), failure.CutOff; got != want {
			t.Errorf("cancelled: got %v (%v), want %v", got, err, want)
		}
		conn = dial(t, server.config)
		go func() { <-entered; _ = conn.Close() }()
		err = conn.Do(long(t), &Request{Method: "GET", Target: "/"}, &Answer{})
		if got, want := Kind(err), failure.CutOff; got != want {
			t.Errorf("closed: got %v (%v), want %v", got, err, want)
		}
		if conn.Usable() {
			t.Error("usable after Close")
		}
		if err := conn.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
	})
}

func TestGracefulGoAwayHurtsNobody(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(release) })
	server := start(t, https2, func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-release
		_, _ = io.WriteString(w, "done")
	})
	defer goOn() // else the server would not end
	conn := dial(t, server.config)
	ended := make(chan error, 1)
	go func() { ended <- conn.Do(long(t), &Request{Method: "GET", Target: "/"}, &Answer{}) }()
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- server.Config.Shutdown(long(t)) }()
	eventually(t, "the connection is no longer usable", func() bool { return !conn.Usable() })
	err := conn.Do(long(t), &Request{Method: "GET", Target: "/"}, &Answer{})
	// net/http may have read the GOAWAY a little later than we saw it, and sent the request.
	if got, want := Kind(err), failure.Protocol; got != want || !Unsent(err) && !Unprocessed(err) {
		t.Errorf("another request: got %v (%v), unsent %v, unprocessed %v; want %v", got, err, Unsent(err), Unprocessed(err), want)
	}
	goOn()
	if err := <-ended; err != nil {
		t.Errorf("the request under way: %v", err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func TestUsableSeesTheServerGo(t *testing.T) {
	t.Parallel()
	onEvery(t, func(t *testing.T, way string) {
		server := start(t, way, func(http.ResponseWriter, *http.Request) {})
		conn := dial(t, server.config)
		if err := conn.Do(long(t), &Request{Method: "GET", Target: "/"}, &Answer{}); err != nil {
			t.Fatal(err)
		}
		server.CloseClientConnections()
		eventually(t, "the connection is no longer usable", func() bool { return !conn.Usable() })
		err := conn.Do(long(t), &Request{Method: "GET", Target: "/"}, &Answer{})
		if !Unsent(err) || !slices.Contains([]failure.Kind{failure.EOF, failure.Reset, failure.Protocol}, Kind(err)) {
			t.Errorf("another request: %v (%v), unsent %v", Kind(err), err, Unsent(err))
		}
	})
}
