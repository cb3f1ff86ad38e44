package k6

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/failure"
	"loadstone/lab/threshold"
)

// collected feeds lines to a collector and returns its windows.
func collected(tb testing.TB, lines ...[]byte) (*collector, []load.Window) {
	tb.Helper()
	var windows []load.Window
	c := newCollector(func() float64 { return 0 }, func(w load.Window) error { windows = append(windows, w); return nil })
	if err := readLines(bytes.NewReader(bytes.Join(lines, nil)), c); err != nil {
		tb.Fatal(err)
	}
	return c, windows
}

func TestWindowsAreCutByTheTimesOfPoints(t *testing.T) {
	t.Parallel()
	at := func(ms int64) []byte { return requestAt(time.UnixMilli(1_000_000+ms), 1) }
	// 1200 before 900 is out of order and in time; 100 at the end is too late
	// and counts in the oldest window that is open.
	_, windows := collected(t, at(0), at(500), at(1200), at(900), at(2100), at(7300), at(7400), at(100))
	type cut struct {
		start    int64
		requests uint64
		seconds  float64
	}
	var got []cut
	for _, w := range windows {
		got = append(got, cut{w.Start.UnixMilli() - 1_000_000, w.Requests, w.Seconds})
	}
	if want := "[{0 3 1} {1000 1 1} {2000 1 1} {7000 3 0.4}]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestATimeFarOffIsGarbage(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	c, windows := collected(t, requestAt(now, 1), requestAt(now.AddDate(100, 0, 0), 1), requestAt(now.Add(time.Second), 1))
	if c.garbage != 1 || len(windows) != 2 || c.total.requests != 2 {
		t.Errorf("got %d lines of garbage, %d windows, %d requests; want 1, 2, 2", c.garbage, len(windows), c.total.requests)
	}
}

func TestNamesAreBounded(t *testing.T) {
	t.Parallel()
	var lines [][]byte
	for i := range 3 * mostNames {
		line := requestAt(time.Unix(1000, int64(i)*1e6), 1)
		lines = append(lines, bytes.Replace(line, []byte(`"get"`), fmt.Appendf(nil, `"http://127.0.0.1/%d"`, i), 1))
		lines = append(lines, fmt.Appendf(nil, `{"metric":"checks","type":"Point","data":{"time":"1970-01-01T00:16:40Z","value":1,"tags":{"check":"c%d"}}}`+"\n", i))
	}
	c, windows := collected(t, lines...)
	r, err := c.report()
	if err != nil {
		t.Fatal(err)
	}
	for what, got := range map[string]int{"steps": len(r.Result.Steps), "checks": len(r.Result.Checks), "a window's steps": len(windows[0].Steps)} {
		if got != mostNames+1 {
			t.Errorf("%s: got %d, want %d", what, got, mostNames+1)
		}
	}
	if s := r.Result.Steps[mostNames]; s.Name != otherName || s.Requests != 2*mostNames {
		t.Errorf("the last step: got %q with %d requests, want other with %d", s.Name, s.Requests, 2*mostNames)
	}
	if s := r.Result.Checks[mostNames]; s.Name != otherName || s.Passes != 2*mostNames {
		t.Errorf("the last check: got %+v, want other with %d", s, 2*mostNames)
	}
}

// TestASelectorTakesOnlyItsName also while it is the only one, or none, that was seen.
func TestASelectorTakesOnlyItsName(t *testing.T) {
	t.Parallel()
	at := func(s int, name string, ms float64) []byte {
		return bytes.Replace(requestAt(time.Unix(1000, int64(s)*1e9), ms), []byte(`"get"`), fmt.Appendf(nil, "%q", name), 1)
	}
	_, windows := collected(t, at(0, "slow", 900), at(1, "slow", 900), at(2, "quick", 5), at(3, "quick", 5), at(5, "slow", 900))
	parsed, err := threshold.Parse("http_req_duration{name:quick}", "p(95)<100 over 1s")
	if err != nil {
		t.Fatal(err)
	}
	watch := threshold.NewWatch([]threshold.Threshold{parsed})
	for _, w := range windows {
		if _, err := watch.Add(w); err != nil {
			t.Fatal(err)
		}
	}
	if got := watch.Now()[0]; !got.Met || got.Observed < 4 || got.Observed > 6 {
		t.Errorf("got %+v, want 5 ms, of the requests with that name", got)
	}
}

func TestWebSocket(t *testing.T) {
	t.Parallel()
	line := func(metric string, value int) []byte {
		return fmt.Appendf(nil, `{"metric":%q,"type":"Point","data":{"time":"2020-01-01T00:00:00Z","value":%d,"tags":{}}}`+"\n", metric, value)
	}
	c, _ := collected(t, line("ws_sessions", 1), line("ws_sessions", 1), line("ws_msgs_sent", 3), line("ws_msgs_received", 1))
	r, err := c.report()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := *r.Result.WebSocket, (load.WebSocketResult{Connects: 2, Sent: 3, Other: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestKinds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		code, text string
		want       failure.Kind
	}{
		{"", "", failure.None},
		{"1404", "", failure.None},
		{"1503", "", failure.None},
		{"1050", "request timeout", failure.Timeout},
		{"1211", "dial: i/o timeout", failure.Timeout},
		{"1212", "dial: connection refused", failure.Refused},
		{"1220", "read: connection reset by peer", failure.Reset},
		{"1201", "write: broken pipe", failure.Reset},
		{"1101", "lookup: no such host", failure.Dial},
		{"1213", "dial: unknown errno `99` on linux with message `cannot assign requested address`", failure.PortExhausted},
		{"1310", "x509: unknown authority", failure.TLS},
		{"1632", "http2: stream error", failure.Protocol},
		{"1000", "unexpected EOF", failure.EOF},
		{"1000", "malformed HTTP response", failure.BadHTTP},
		{"1701", "gzip: invalid header", failure.BadHTTP},
	} {
		if got := kindOf(tags{ErrorCode: test.code, Error: test.text}); got != test.want {
			t.Errorf("%s %s: got %v, want %v", test.code, test.text, got, test.want)
		}
	}
}

// TestAnyOrderOfKeys: what the short cut of decode takes for granted is not
// needed.
func TestAnyOrderOfKeys(t *testing.T) {
	t.Parallel()
	line := []byte(`{"type":"Point","data":{"time":"2020-01-01T00:00:00Z","value":2,"tags":{"scenario":"s","metric":"x"}},"metric":"iterations"}`)
	p, matters, err := decode(line)
	if err != nil || !matters || p.Metric != "iterations" || p.Data.Value != 2 || p.Data.Tags.Scenario != "s" {
		t.Errorf("got %+v, %t, %v; want 2 iterations of s", p, matters, err)
	}
}

// FuzzLines: no output, however broken, is a crash or an invented request.
func FuzzLines(f *testing.F) {
	for line := range bytes.Lines(recorded) {
		f.Add(line)
	}
	f.Add([]byte("nonsense\n\n{}\n[]\nnull\n"))
	f.Add([]byte(`{"metric":"http_req_duration","type":"Point","data":{"time":"9999-12-31T23:59:59Z","value":1e300,"tags":null}}`))
	f.Add([]byte(`{"metric":"http_req_duration","type":"Point","data":{"time":"2020-01-01T00:00:00Z","value":9e15,"tags":{"status":"-1"}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, windows := collected(t, text)
		r, err := c.report()
		if err != nil {
			t.Fatal(err)
		}
		var sum uint64
		for _, w := range windows {
			sum += w.Requests
			if w.Seconds <= 0 || w.Seconds > 1 {
				t.Errorf("a window of %v s", w.Seconds)
			}
		}
		if lines := uint64(strings.Count(string(text), "\n")) + 1; sum != r.Result.Requests || sum > lines {
			t.Errorf("%d requests in windows, %d in all, of %d lines", sum, r.Result.Requests, lines)
		}
	})
}

// BenchmarkLines says what reading k6's output costs: nine lines for each
// request, of which three count.
func BenchmarkLines(b *testing.B) {
	var text []byte
	now := time.Unix(1000, 0)
	for i := range 1000 {
		line := requestAt(now.Add(time.Duration(i)*time.Millisecond), 5)
		for _, metric := range []string{
			"http_reqs", "http_req_duration", "http_req_blocked", "http_req_connecting", "http_req_tls_handshaking",
			"http_req_sending", "http_req_waiting", "http_req_receiving", "http_req_failed",
		} {
			text = append(text, bytes.Replace(line, []byte("http_req_duration"), []byte(metric), 1)...)
		}
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		c := newCollector(func() float64 { return 0 }, func(load.Window) error { return nil })
		if err := readLines(bytes.NewReader(text), c); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/request")
}
