package httpapi_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/httpserver"
	"loadstone/block/openapitest"
	"loadstone/system/results"
	"loadstone/system/results/httpapi"
)

// fixture is a running server.
type fixture struct {
	addr string
	reg  *prometheus.Registry
	logs *logs
}

// logs is a slog destination that tests can read.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func start(t *testing.T, store results.Store, access httpapi.Access, ready func() bool) fixture {
	t.Helper()
	return startWith(t, httpapi.Config{Store: store, Access: access, Ready: ready})
}

// startWith fills in what a configuration leaves out. The server waits for requests as long
// as a busy machine takes.
func startWith(t *testing.T, c httpapi.Config) fixture {
	t.Helper()
	return startReading(t, c, time.Minute)
}

// startReading is startWith for a server that waits so long for a whole request.
func startReading(t *testing.T, c httpapi.Config, timeout time.Duration) fixture {
	t.Helper()
	f := fixture{reg: prometheus.NewRegistry(), logs: &logs{}}
	c.Logger, c.Registerer = slog.New(slog.NewTextHandler(f.logs, nil)), f.reg
	if c.Ready == nil {
		c.Ready = always
	}
	if c.Publication == nil {
		c.Publication = out
	}
	api, err := httpapi.New(c)
	if err != nil {
		t.Fatal(err)
	}
	cfg := httpserver.DefaultConfig()
	cfg.ReadTimeout = timeout
	cfg.Handler, cfg.BadRequest, cfg.Registerer = api.Handle, api.BadRequest, f.reg
	f.addr = openapitest.Serve(t, cfg)
	return f
}

func always() bool { return true }

func out() results.Publication { return results.Publication{Out: true} }

// inAnHour is an embargo.
func inAnHour() results.Publication {
	return results.Publication{At: noon.Add(time.Hour), Left: time.Hour}
}

// ask sends a request with the headers, closing the connection after it, and
// returns all bytes that come back.
func (f fixture) ask(t *testing.T, method, target string, headers ...string) []byte {
	t.Helper()
	lines := append([]string{method + " " + target + " HTTP/1.1", "Host: results", "Connection: close"}, headers...)
	return f.send(t, strings.Join(lines, "\r\n")+"\r\n\r\n")
}

func (f fixture) send(t *testing.T, raw string) []byte {
	t.Helper()
	conn, err := net.Dial("tcp", f.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	// A refused request may be answered before it has been sent whole.
	_, _ = io.WriteString(conn, raw)
	answer, err := io.ReadAll(conn)
	if err != nil && len(answer) == 0 {
		t.Fatalf("request %.60q: %v", raw, err)
	}
	conforms(t, raw, answer)
	return answer
}

// answer is a parsed one.
type answer struct {
	status int
	header http.Header
	length int64 // as the header says
	body   string
}

// parse reads the answer to a request by method.
func parse(t *testing.T, method string, raw []byte) answer {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("answer %.200q: %v", raw, err)
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, resp.ContentLength, string(got)}
}

// errorCode reads the code of a JSON error body.
func errorCode(t *testing.T, text string) string {
	t.Helper()
	var e struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(text), &e); err != nil || e.Error.Message == "" {
		t.Errorf("body %q: got %v, want an error with a message", text, err)
	}
	return e.Error.Code
}

// sum adds up all series of a metric that have the label's value; any, if it is
// none is given.
func (f fixture) sum(t *testing.T, name string, value ...string) float64 {
	t.Helper()
	families, err := f.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	total := 0.0
	for _, family := range families {
		if family.GetName() == name {
			for _, m := range family.GetMetric() {
				if len(value) > 0 && m.GetLabel()[0].GetValue() != value[0] {
					continue
				}
				total += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return total
}

func newAPI(tb testing.TB, access httpapi.Access) *httpapi.API {
	tb.Helper()
	return newAPIWith(tb, httpapi.Config{Access: access})
}

// newAPIWith fills in what a configuration leaves out.
func newAPIWith(tb testing.TB, c httpapi.Config) *httpapi.API {
	tb.Helper()
	if c.Store == nil {
		c.Store = students
	}
	if c.Publication == nil {
		c.Publication = out
	}
	c.Ready, c.Logger, c.Registerer = always, slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	api, err := httpapi.New(c)
	if err != nil {
		tb.Fatal(err)
	}
	return api
}
