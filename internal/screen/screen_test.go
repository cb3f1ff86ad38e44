package screen

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/load"
	"loadstone/lab/threshold"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

const title = "http://127.0.0.1:8080/student/{id}  constant-arrival-rate 500/s"

// sample is the second of a load with that number, from 0; the first five are
// its warm-up.
func sample(t *testing.T, second int) load.Window {
	t.Helper()
	response, service := load.NewHistogram(), load.NewHistogram()
	requests := 500 - 60*(second%7)
	for i := range requests {
		micros := int64(800 + i*i/40)
		if second == 20 {
			micros *= 300
		}
		if err := errors.Join(response.RecordValue(micros), service.RecordValue(micros/2)); err != nil {
			t.Fatal(err)
		}
	}
	w := load.Window{
		Start: time.Date(2026, 5, 9, 7, 29, second, 0, time.UTC), Warmup: second < 5, Drain: second >= 30, Seconds: 1,
		Requests: uint64(requests), InFlight: 12 + second, Checks: uint64(requests), Busy: 0.42,
		Response: encode(t, response), Service: encode(t, service),
	}
	if second%10 == 0 {
		w.Failed, w.Late, w.Dropped, w.CheckFails, w.Busy = 7, 2, 1, 3, 0.97
		w.Errors = map[string]uint64{"timeout": 4, "reset": 2, "bad_http": 1}
	}
	return w
}

func encode(t *testing.T, h *hdrhistogram.Histogram) string {
	t.Helper()
	text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func outcomes(n int) []threshold.Outcome {
	all := []threshold.Outcome{
		{Metric: "http_req_duration", Threshold: "p(95)<200", Observed: 6.4821, Met: true},
		{Metric: "http_req_failed", Threshold: "rate<0.001", Observed: 0.00141, Met: false},
		{Metric: "http_req_duration{step:login}", Threshold: "p(99)<500 over 10s", Met: false, Reason: "no request of the step login so far, so nothing was observed"},
	}
	for len(all) < n {
		all = append(all, threshold.Outcome{Metric: "checks", Threshold: fmt.Sprintf("rate>0.%d", len(all)), Observed: 1, Met: len(all) != 11})
	}
	return all[:n]
}

// terminal is what a terminal with a height and a width makes of what is
// written to it: as much of it as the screen uses. It fails the test on what it
// does not know, and on text that would wrap.
type terminal struct {
	t             *testing.T
	width, height int
	rows          [][]rune
	row, col      int
	writes        int
}

func (v *terminal) Write(p []byte) (int, error) {
	v.writes++
	text := string(p)
	for text != "" {
		if rest, ok := strings.CutPrefix(text, "\x1b["); ok {
			i := strings.IndexFunc(rest, func(r rune) bool { return r >= '@' && r <= '~' })
			v.command(rest[:i], rest[i])
			text = rest[i+1:]
			continue
		}
		r, n := utf8.DecodeRuneInString(text)
		text = text[n:]
		switch r {
		case '\r':
			v.col = 0
		case '\n':
			v.row++
		default:
			v.put(r)
		}
	}
	return len(p), nil
}

func (v *terminal) put(r rune) {
	for len(v.rows) <= v.row {
		v.rows = append(v.rows, nil)
	}
	if v.row >= v.height || v.col >= v.width {
		v.t.Errorf("%q stands at row %d, column %d of %dx%d", r, v.row, v.col, v.width, v.height)
	}
	for len(v.rows[v.row]) <= v.col {
		v.rows[v.row] = append(v.rows[v.row], ' ')
	}
	v.rows[v.row][v.col] = r
	v.col++
}

func (v *terminal) command(parameter string, final byte) {
	switch {
	case final == 'm', parameter == "?7" && (final == 'l' || final == 'h'):
	case final == 'A':
		var n int
		if _, err := fmt.Sscan(parameter, &n); err != nil {
			v.t.Errorf("move up by %q: %v", parameter, err)
		}
		if v.row -= n; v.row < 0 {
			v.t.Errorf("the cursor is %d rows above the first", -v.row)
			v.row = 0
		}
	case parameter == "" && (final == 'K' || final == 'J'):
		if v.row < len(v.rows) {
			v.rows[v.row] = v.rows[v.row][:min(v.col, len(v.rows[v.row]))]
		}
		if final == 'J' {
			v.rows = v.rows[:min(v.row+1, len(v.rows))]
		}
	default:
		v.t.Errorf("an unknown sequence: %q %c", parameter, final)
	}
}

// shown is the terminal as text.
func (v *terminal) shown() string {
	var b strings.Builder
	for _, row := range v.rows {
		b.WriteString(strings.TrimRight(string(row), " ") + "\n")
	}
	return b.String()
}

func (v *terminal) size() (w, h int) { return v.width, v.height }

func (v *terminal) open(change func(*Config)) *Screen {
	cfg := Config{Out: v, Terminal: true, Size: v.size, Title: title, Total: 30 * time.Second, Threads: 1}
	if change != nil {
		change(&cfg)
	}
	return New(cfg)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("no golden file, run the test with -args -update: %v", err)
	}
	if got != string(want) {
		t.Errorf("differs from %s; if that is right, run the test with -args -update\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}

func TestScreenIsAsAgreed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		width, height, seconds, outcomes int
		change                           func(*Config)
	}{
		"normal":     {80, 24, 21, 3, nil},
		"narrow":     {40, 24, 21, 3, nil},
		"warm-up":    {80, 24, 3, 0, nil},
		"many":       {80, 24, 12, 14, nil},
		"low":        {80, 10, 12, 3, nil},
		"wide":       {140, 50, 70, 14, func(c *Config) { c.Threads = 4 }},
		"no-end":     {80, 24, 8, 1, func(c *Config) { c.Total = 0 }},
		"overrun":    {80, 24, 33, 0, nil},
		"tiny":       {9, 30, 12, 2, nil},
		"one-column": {1, 30, 2, 2, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := &terminal{t: t, width: c.width, height: c.height}
			s := v.open(c.change)
			for second := range c.seconds {
				s.Add(sample(t, second), outcomes(c.outcomes))
			}
			golden(t, name, v.shown())
			if v.writes != c.seconds {
				t.Errorf("got %d writes for %d screens, want one each", v.writes, c.seconds)
			}
			v.height += 2 // Close takes a line of its own
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
}

func TestColourIsAsAgreed(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	s := New(Config{Out: &b, Terminal: true, Color: true, Title: title, Total: 30 * time.Second, Threads: 1})
	for second := range 21 {
		b.Reset()
		s.Add(sample(t, second), outcomes(3))
	}
	golden(t, "colour", strings.ReplaceAll(b.String(), "\x1b", "^["))
}

func TestPlainLinesAreAsAgreed(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	s := New(Config{Out: &b, Color: true, Title: title, Total: 30 * time.Second, Threads: 1})
	for _, second := range []int{3, 4, 5, 10, 20} {
		s.Add(sample(t, second), outcomes(3))
	}
	s.Add(load.Window{Start: time.Date(2026, 5, 9, 7, 29, 21, 0, time.UTC), Seconds: 0.25, Drain: true}, nil)
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if strings.Contains(b.String(), "\x1b") {
		t.Error("a line that is for no terminal has control characters")
	}
	golden(t, "plain", b.String())
}

func TestRedrawLeavesNothingOfTheLastScreen(t *testing.T) {
	t.Parallel()
	v := &terminal{t: t, width: 80, height: 24}
	s := v.open(nil)
	s.Add(sample(t, 0), outcomes(6))
	s.Add(sample(t, 5), nil) // fewer lines, and shorter ones
	fresh := &terminal{t: t, width: 80, height: 24}
	again := fresh.open(nil)
	again.tally = s.tally
	again.redraw(again.lines(80, 24, nil), 80)
	if got, want := v.shown(), fresh.shown(); got != want {
		t.Errorf("got:\n%s\nwant as on an empty terminal:\n%s", got, want)
	}
}

// A terminal that becomes narrower breaks lines that no longer fit into more
// rows, and all of them must go.
func TestNarrowedTerminalIsErasedWhole(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	width := 80
	s := New(Config{Out: &b, Terminal: true, Size: func() (int, int) { return width, 24 }, Title: title, Total: 30 * time.Second})
	s.Add(sample(t, 5), outcomes(3))
	rows := 0
	for _, n := range s.drawn {
		rows += max(1, (n+39)/40)
	}
	if rows <= len(s.drawn) {
		t.Fatal("no line is longer than 40, so nothing is tested")
	}
	b.Reset()
	width = 40
	s.Add(sample(t, 6), outcomes(3))
	if want := fmt.Sprintf("\r\x1b[%dA", rows-1); !strings.HasPrefix(b.String(), want) {
		t.Errorf("got a redraw that begins with %q, want %q", b.String()[:8], want)
	}
}

func TestLinesFitEveryWidth(t *testing.T) {
	t.Parallel()
	for width := 1; width <= 130; width++ {
		v := &terminal{t: t, width: width, height: 24} // which fails on what is too long
		s := v.open(func(c *Config) { c.Title = strings.Repeat("täglich ", 20) })
		s.Add(sample(t, 4), outcomes(14))
		s.Add(sample(t, 10), outcomes(14))
	}
}

func TestHostileNamesMoveNoCursor(t *testing.T) {
	t.Parallel()
	v := &terminal{t: t, width: 80, height: 24}
	s := v.open(func(c *Config) { c.Title = "http://x/\x1b[2J\r\n\u202e\xff" })
	w := sample(t, 10)
	w.Errors = map[string]uint64{"\x1b]0;owned\x07": 1}
	s.Add(w, []threshold.Outcome{{Metric: "a\nb", Threshold: "\x1b[31mrate<1", Observed: math.Inf(1)}})
	got := v.shown()
	for _, want := range []string{"http://x/?[2J????", "?]0;owned? 1", "✗ a?b  ?[31mrate<1  –"} {
		if !strings.Contains(got, want) {
			t.Errorf("got:\n%s\nwant %q in it", got, want)
		}
	}
}

func FuzzCleanTextMovesNoCursor(f *testing.F) {
	for _, text := range []string{"", "p(95)<200", "\x1b[2J", "a\r\nb\x7f", "\u202e\u0085\u2028", "\xff\xfe", "täglich 日本"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := clean(text)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("got %q of %q, want printable characters only", got, text)
		}
		for width := 1; width < 12; width++ {
			if n := say(got).fit(width).width(); n > width {
				t.Errorf("got %d columns of %q, want at most %d", n, got, width)
			}
		}
	})
}

func TestWarmupCountsAreForgotten(t *testing.T) {
	t.Parallel()
	s := New(Config{Out: &bytes.Buffer{}})
	s.Add(sample(t, 0), nil)
	if s.tally.failed != 7 {
		t.Errorf("in the warm-up: got %d failed, want 7 in sight", s.tally.failed)
	}
	w := sample(t, 5)
	s.Add(w, nil)
	got := [...]uint64{s.tally.requests, s.tally.failed, uint64(s.tally.response.TotalCount()), uint64(len(s.tally.errors))}
	if want := [...]uint64{w.Requests, 0, w.Requests, 0}; got != want {
		t.Errorf("after the warm-up: got %v, want %v", got, want)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestCloseTellsWhatWentWrong(t *testing.T) {
	t.Parallel()
	for _, onTerminal := range []bool{true, false} {
		s := New(Config{Out: broken{}, Terminal: onTerminal})
		s.Add(sample(t, 0), nil)
		if err := s.Close(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("terminal %v: got %v, want the write's error", onTerminal, err)
		}
	}
	s := New(Config{Out: &bytes.Buffer{}})
	w := sample(t, 0)
	w.Service = "no histogram"
	s.Add(w, nil)
	if err := s.Close(); !errors.Is(err, errNoLatency) {
		t.Errorf("got %v, want %v", err, errNoLatency)
	}
	if err := New(Config{Out: broken{}, Terminal: true}).Close(); err != nil {
		t.Errorf("a screen on which nothing was drawn: got %v, want none", err)
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[float64]string{0: "0:00", 59.6: "1:00", 75: "1:15", 3725: "1:02:05"} {
		if got := clock(seconds); got != want {
			t.Errorf("clock(%v): got %q, want %q", seconds, got, want)
		}
	}
}
