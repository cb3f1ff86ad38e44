package httpserver

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// Where a request ends is not for two opinions: what a proxy could take for its body is
// never answered as the next one.
func TestWhatCouldBeABodyIsNoRequest(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.IdleTimeout = 500 * time.Millisecond
	cfg.Handler = func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString("at " + string(ctx.Path()) + ".") }
	cfg.BadRequest = func(ctx *fasthttp.RequestCtx, status int) { ctx.SetStatusCode(status) }
	s, err := Listen(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	run(t, s)
	const inner = "GET /inner HTTP/1.1\r\nHost: inner\r\n\r\n"
	const chunks, none = "Transfer-Encoding: chunked\r\n", "0\r\n\r\n"
	for name, c := range map[string]struct{ head, body string }{
		"a length, then chunks": {"Content-Length: 6\r\n" + chunks, none},
		"chunks, then a length": {chunks + "Content-Length: 6\r\n", none},
		"chunks":                {chunks, none},
		"chunks in capitals":    {strings.ToUpper(chunks) + "Content-Length: 6\r\n", none},
		"a bad chunk":           {chunks, "x\r\n\r\n"},
		"chunks twice":          {chunks + chunks, none},
		"an unknown coding":     {"Transfer-Encoding: xchunked\r\n", none},
		"another before chunks": {"Transfer-Encoding: gzip, chunked\r\n", none},
		"two lengths":           {"Content-Length: 0\r\nContent-Length: 38\r\n", ""},
		"a list of lengths":     {"Content-Length: 0, 0\r\n", ""},
		"less than nothing":     {"Content-Length: -1\r\n", ""},
		"a length with a sign":  {"Content-Length: +0\r\n", ""},
		"a length and more":     {"Content-Length: 0x0\r\n", ""},
		"a space before":        {"Content-Length : 0\r\n", ""},
	} {
		for _, method := range []string{"POST", "GET"} {
			t.Run(method+" "+name, func(t *testing.T) {
				t.Parallel()
				all := allAnswers(t, s, method+" /outer HTTP/1.1\r\nHost: x\r\n"+c.head+"\r\n"+c.body+inner)
				if strings.Contains(all, "at /inner.") || !strings.HasPrefix(all, "HTTP/1.1 ") {
					t.Errorf("got %q", all)
				}
			})
		}
	}
	// The check must be able to fail: two requests that anybody tells apart.
	if all := allAnswers(t, s, "POST /outer HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"+inner); !strings.Contains(all, "at /inner.") {
		t.Errorf("got %q, want two answers", all)
	}
}

// allAnswers sends bytes and returns all that come back.
func allAnswers(t *testing.T, s *Server, raw string) string {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, raw) // may be refused before it has been sent whole
	all, _ := io.ReadAll(conn)       // whatever ends it, what came counts
	return string(all)
}
