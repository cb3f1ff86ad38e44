package accesslog

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const realistic = "testdata/access.log"

// line is a log's line of a time after midnight, in seconds.
func line(second int, target string) string {
	clock := time.Date(2026, 10, 10, 0, 0, second, 0, time.UTC)
	return `192.0.2.1 - - [` + clock.Format("02/Jan/2006:15:04:05 -0700") + `] "GET ` + target + ` HTTP/1.1" 200 12 "-" "-"` + "\n"
}

// write makes a file of the test's own.
func write(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// open opens a log and closes it when the test ends.
func open(t testing.TB, path string, speed float64) *Log {
	t.Helper()
	l, err := Open(Config{Path: path, Speed: speed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// all reads the rest of a log.
func all(t testing.TB, l *Log) []Entry {
	t.Helper()
	var entries []Entry
	for {
		e, err := l.Next()
		if errors.Is(err, io.EOF) {
			return entries
		}
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
}

// lines writes entries as one text each, to compare.
func lines(entries []Entry) []string {
	var texts []string
	for _, e := range entries {
		texts = append(texts, fmt.Sprintf("%d %v %s %s", e.Number, e.At, e.Method, e.Target))
	}
	return texts
}

func TestRealisticLog(t *testing.T) {
	t.Parallel()
	want := []string{
		"0 0s GET /",
		"1 333.333333ms GET /static/app.js?v=3.1",
		"2 666.666666ms GET /slow/report",
		"3 1s GET /student/100042?fields[]=name&fields[]=score",
		"4 1.333333333s HEAD /health",
		"5 1.666666666s GET /just/in/time",
		"6 2s GET /search?q=%22ann%20lee%22&lang=%C3%BC",
		"7 2.25s GET /search?q=%22bob%22%5Cx41",
		"8 2.5s GET /a%20b/%7Euser?x={id}|y",
		"9 2.75s GET /x%0D%0AHost:%20evil.example%0D%0A",
		"10 11s GET /favicon.ico",
		"11 12s GET /a%23b",
	}
	got := lines(all(t, open(t, realistic, 1)))
	if !slices.Equal(got, want) {
		t.Errorf("entries:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestScan(t *testing.T) {
	t.Parallel()
	got, err := Scan(t.Context(), Config{Path: realistic, Speed: 2})
	if err != nil {
		t.Fatal(err)
	}
	want := Summary{Entries: 12, Skipped: 9, Length: 6500 * time.Millisecond, Reasons: []Skip{
		{notALine.String(), 1, 18, `2026/10/11 00:00:00 [error] 17#17: *1 open() "/srv/favicon.ico" failed (2: No such file or directory)`},
		{noRequest.String(), 3, 6, `203.0.113.80 - - [10/Oct/2026:23:59:59 +0200] "\x16\x03\x01\x02\x00\x01\x00\x01\xFC\x03\x03" 400 157 "-" "-"`},
		{otherMethod.String(), 2, 4, `203.0.113.9 - - [10/Oct/2026:23:59:59 +0200] "POST /login HTTP/1.1" 302 0 "https://results.example/login" "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X)"`},
		{otherForm.String(), 1, 14, `192.0.2.47 - - [11/Oct/2026:00:00:00 +0200] "GET http://elsewhere.example/ HTTP/1.1" 400 157 "-" "-"`},
		{upgrade.String(), 1, 16, `192.0.2.48 - - [11/Oct/2026:00:00:00 +0200] "GET /chat HTTP/1.1" 101 20113 "-" "Mozilla/5.0"`},
		{outOfOrder.String(), 1, 20, `192.0.2.51 - - [10/Oct/2026:23:59:58 +0200] "GET /too/late HTTP/1.1" 200 5 "-" "-"`},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestTwoLogsOfOneFile are read in turns, one of them compressed.
func TestTwoLogsOfOneFile(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(realistic)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "access.log.1.gz")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for half := range slices.Chunk(text, len(text)/2+1) { // rotated logs are joined like that
		zipped := gzip.NewWriter(file)
		if _, err := zipped.Write(half); err != nil {
			t.Fatal(err)
		}
		if err := zipped.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	a, b, c := open(t, realistic, 1), open(t, realistic, 1), open(t, path, 1)
	for n := 0; ; n++ {
		x, errX := a.Next()
		y, errY := b.Next()
		z, errZ := c.Next()
		if x != y || x != z || !errors.Is(errY, errX) || !errors.Is(errZ, errX) {
			t.Fatalf("entry %d: %v %v, %v %v, %v %v", n, x, errX, y, errY, z, errZ)
		}
		if errX != nil {
			return
		}
	}
}

func TestSpeed(t *testing.T) {
	t.Parallel()
	path := write(t, "access.log", line(0, "/a")+line(0, "/b")+line(30, "/c"))
	for speed, want := range map[float64][]time.Duration{
		1: {0, time.Second / 2, 30 * time.Second}, 2: {0, time.Second / 4, 15 * time.Second},
		0.5: {0, time.Second, time.Minute}, 1e300: {0, 0, 0},
	} {
		var got []time.Duration
		for _, e := range all(t, open(t, path, speed)) {
			got = append(got, e.At)
		}
		if !slices.Equal(got, want) {
			t.Errorf("at speed %v: %v, want %v", speed, got, want)
		}
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		seconds string
		want    string
		skipped uint64
	}{
		"in order":                     {"0 1 1 2", "0 1 1 2", 0},
		"a little out of order":        {"3 1 2 0 3", "0 1 2 3 3", 0},
		"ten seconds late":             {"0 10 0 11 1 21 11", "0 0 1 10 11 11 21", 0},
		"eleven seconds late":          {"0 11 0 12 1", "0 11 12", 2},
		"as late after a pause":        {"0 100 50 95", "0 95 100", 1},
		"a gap":                        {"0 3600", "0 3600", 0},
		"older than the first line":    {"5 0 6", "0 5 6", 0},
		"the last before the end late": {"12 13 9", "9 12 13", 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, l := ordered(t, test.seconds, mostHeld)
			if got != test.want {
				t.Errorf("%s come as %s, want %s", test.seconds, got, test.want)
			}
			if skipped := l.skipped[outOfOrder].Count; skipped != test.skipped {
				t.Errorf("%d lines are skipped, want %d", skipped, test.skipped)
			}
		})
	}
}

// ordered reads lines of these seconds back, most of them held at once.
func ordered(t *testing.T, seconds string, most int) (string, *Log) {
	t.Helper()
	var text strings.Builder
	for second := range strings.FieldsSeq(seconds) {
		n, err := strconv.Atoi(second)
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString(line(n, "/"+second))
	}
	l := open(t, write(t, "access.log", strings.TrimSuffix(text.String(), "\n")), 1)
	l.order.most = most
	var got []string
	last := time.Duration(0)
	for _, e := range all(t, l) {
		if e.At < last {
			t.Errorf("%s comes at %v, after %v", e.Target, e.At, last)
		}
		last = e.At
		got = append(got, e.Target[1:])
	}
	return strings.Join(got, " "), l
}

// TestFullOrder: what is held is bounded, and the oldest goes first.
func TestFullOrder(t *testing.T) {
	t.Parallel()
	got, l := ordered(t, "0 0 1 2 2 1 0 3 3 3", 3)
	if want := "0 0 1 2 2 3 3 3"; got != want {
		t.Errorf("the lines come as %s, want %s", got, want)
	}
	if got, want := l.skipped[outOfOrder].Count, uint64(2); got != want {
		t.Errorf("%d lines are skipped, want %d", got, want)
	}
	path := write(t, "access.log", strings.Repeat(line(0, "/"), 3)+strings.Repeat(line(1, "/"), 4))
	l = open(t, path, 1)
	l.order.most = 3
	var err error
	var n int
	for err == nil {
		_, err = l.Next()
		n++
	}
	if want := path + ":7: more than 3 requests, or 64 MiB of targets, in one second: take a part of the log"; !strings.Contains(err.Error(), want) || n != 4 {
		t.Errorf("after %d entries: %v, want %s", n-1, err, want)
	}
	l = open(t, path, 1)
	l.order.mostBytes = 3 // one byte for each target
	if _, err := l.scan(t.Context()); err == nil {
		t.Error("more targets than may be held are no error")
	}
}

func TestEntriesOfASecondAreSpreadEvenly(t *testing.T) {
	t.Parallel()
	const n = 1000
	entries := all(t, open(t, write(t, "access.log", strings.Repeat(line(5, "/"), n)), 1))
	if len(entries) != n {
		t.Fatalf("%d entries, want %d", len(entries), n)
	}
	for i, e := range entries {
		if want := time.Duration(i) * time.Millisecond; (e.At - want).Abs() > time.Nanosecond {
			t.Fatalf("entry %d is at %v, want %v", i, e.At, want)
		}
	}
}

func TestLongLines(t *testing.T) {
	t.Parallel()
	most := mostLine - len(line(0, "/")) + 1
	path := write(t, "access.log", line(0, "/"+strings.Repeat("x", most-1))+line(0, "/"+strings.Repeat("y", most))+line(1, "/z")+strings.Repeat("n", 3*mostLine))
	l := open(t, path, 1)
	entries := all(t, l)
	if len(entries) != 2 || entries[1].Target != "/z" {
		t.Errorf("%d entries, want the first and /z", len(entries))
	}
	if got := l.skipped[tooLong]; got.Count != 2 || got.Line != 2 {
		t.Errorf("too long are %d, the first in line %d, want 2 and line 2", got.Count, got.Line)
	}
}

// TestWhatIsAddedLaterIsNotRead: a server that is loaded with its own log
// would else never be done.
func TestWhatIsAddedLaterIsNotRead(t *testing.T) {
	t.Parallel()
	path := write(t, "access.log", line(0, "/a"))
	l := open(t, path, 1)
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(file, line(1, "/b")); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if got := len(all(t, l)); got != 1 {
		t.Errorf("%d entries, want 1", got)
	}
}

func TestNothingToRepeat(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"", "\n\r\n", "x", "\x1f"} {
		path := write(t, "access.log", content)
		if _, err := open(t, path, 1).Next(); !errors.Is(err, io.EOF) {
			t.Errorf("%q: error %v, want EOF", content, err)
		}
		s, err := Scan(t.Context(), Config{Path: path, Speed: 1})
		if err != nil || s.Entries != 0 || s.Length != 0 {
			t.Errorf("%q: %+v, %v", content, s, err)
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	var zipped strings.Builder
	w := gzip.NewWriter(&zipped)
	if _, err := io.WriteString(w, strings.Repeat(line(0, "/"), 100)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	good := write(t, "good.log", line(0, "/"))
	ages := write(t, "ages.log", line(0, "/")+strings.Replace(line(0, "/"), "2026", "2926", 1))
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		config Config
		want   string
	}{
		{Config{Speed: 1}, "the access log has no path: give the file to read"},
		{Config{Path: good}, "speed 0: give a number above 0, such as 1"},
		{Config{Path: good, Speed: -1}, "speed -1: give a number above 0"},
		{Config{Path: good, Speed: math.NaN()}, "speed NaN: give a number above 0"},
		{Config{Path: good, Speed: math.Inf(1)}, "speed +Inf: give a number above 0"},
		{Config{Path: filepath.Join(dir, "none"), Speed: 1}, "no such file"},
		{Config{Path: pipe, Speed: 1}, "access log " + pipe + ": not a regular file: give one"},
		{Config{Path: dir, Speed: 1}, "access log " + dir + ": not a regular file: give one"},
		{Config{Path: write(t, "cut.gz", zipped.String()[:zipped.Len()-9]), Speed: 1}, "unexpected EOF"},
		{Config{Path: write(t, "broken.gz", "\x1f\x8bnonsense"), Speed: 1}, "gzip: invalid header"},
		{Config{Path: ages, Speed: 1}, "at speed 1 it lasts longer than 292 years: raise the speed, or correct the years in the log"},
	}
	for _, test := range tests {
		_, err := Scan(t.Context(), test.config)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: error %v, want %s", test.config, err, test.want)
		}
		if errors.Is(err, io.EOF) {
			t.Errorf("%+v: the error could be taken for the log's end", test.config)
		}
	}
	l := open(t, ages, 1)
	if _, err := l.Next(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := l.Next(); err == nil || !strings.Contains(err.Error(), "292 years") {
			t.Errorf("error %v, want that it lasts too long", err)
		}
	}
}

func TestScanEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Scan(ctx, Config{Path: realistic, Speed: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}

// BenchmarkNext is what one entry costs to read, in a log of 1,000 requests a
// second.
func BenchmarkNext(b *testing.B) {
	var text strings.Builder
	for i := range 60_000 {
		text.WriteString(strings.Replace(line(i/1000, "/student/"+strconv.Itoa(i)), `"-" "-"`,
			`"https://results.example/" "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"`, 1))
	}
	path := write(b, "access.log", text.String())
	b.SetBytes(int64(text.Len() / 60_000))
	b.ReportAllocs()
	l := open(b, path, 1)
	for b.Loop() {
		if _, err := l.Next(); errors.Is(err, io.EOF) {
			l = open(b, path, 1)
		}
	}
}
