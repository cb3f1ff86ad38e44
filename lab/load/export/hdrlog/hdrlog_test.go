package hdrlog_test

import (
	"errors"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/load"
	"loadstone/lab/load/export/hdrlog"
)

var start = time.Date(2026, 11, 21, 10, 0, 0, 250e6, time.UTC)

// histogram has one value for each of the given times.
func histogram(t *testing.T, microseconds ...int64) string {
	t.Helper()
	h := load.NewHistogram()
	for _, v := range microseconds {
		if err := h.RecordValue(v); err != nil {
			t.Fatal(err)
		}
	}
	text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// window is the second after the given number of them.
func window(t *testing.T, after int) load.Window {
	t.Helper()
	k := int64(after + 1)
	return load.Window{
		Start: start.Add(time.Duration(after) * time.Second), Seconds: 1, Requests: 2,
		Response: histogram(t, 1000*k, 20000*k), Service: histogram(t, 1000, 10000*k),
	}
}

func TestOtherReadersReadTheLog(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	w := hdrlog.New(&log, start)
	warm := window(t, 0)
	warm.Warmup = true
	windows := []load.Window{window(t, 0), window(t, 1), window(t, 2)}
	windows[2].Seconds = 0.5
	for _, x := range append([]load.Window{warm}, windows...) {
		if err := w.Add(x); err != nil {
			t.Fatal(err)
		}
	}
	reader := hdrhistogram.NewHistogramLogReader(strings.NewReader(log.String()))
	for i, x := range windows {
		for _, want := range []struct{ tag, histogram string }{{hdrlog.Response, x.Response}, {hdrlog.Service, x.Service}} {
			got, err := reader.NextIntervalHistogram()
			if err != nil || got == nil {
				t.Fatalf("interval %d %s: got %v, %v", i, want.tag, got, err)
			}
			whole, err := hdrhistogram.Decode([]byte(want.histogram))
			if err != nil {
				t.Fatal(err)
			}
			if got.Tag() != want.tag || !got.Equals(whole) {
				t.Errorf("interval %d: got tag %q with %d values to %d, want %q with %d to %d", i, got.Tag(), got.TotalCount(), got.Max(), want.tag, whole.TotalCount(), whole.Max())
			}
			end := x.Start.Add(time.Duration(x.Seconds * float64(time.Second)))
			if math.Abs(float64(got.StartTimeMs()-x.Start.UnixMilli())) > 1 || math.Abs(float64(got.EndTimeMs()-end.UnixMilli())) > 1 {
				t.Errorf("interval %d: got %d to %d, want %d to %d", i, got.StartTimeMs(), got.EndTimeMs(), x.Start.UnixMilli(), end.UnixMilli())
			}
		}
	}
	if got, err := reader.NextIntervalHistogram(); got != nil || err != nil {
		t.Errorf("after the last interval: got %v, %v, want the end", got, err)
	}
}

// TestLines holds the log to the format's letter, which readers in other
// languages match by patterns.
func TestLines(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	w := hdrlog.New(&log, start)
	empty := window(t, 1)
	empty.Requests, empty.Response, empty.Service = 0, histogram(t), histogram(t)
	for _, x := range []load.Window{window(t, 0), empty} {
		if err := w.Add(x); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		`#\[Response and service times of a load, by tag\]`,
		`#\[Values are microseconds; Interval_Max is milliseconds: max value unit ratio 1000\]`,
		`#\[Histogram log format version 1\.3\]`,
		`#\[BaseTime: 1795255200\.250 \(seconds since epoch\)\]`,
		`#\[StartTime: 1795255200\.250 \(seconds since epoch\), 2026-11-21T10:00:00\.250Z\]`,
		`"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"`,
		`Tag=response,0\.000,1\.000,20\.015,HISTFAAAA[A-Za-z0-9+/=]+`,
		`Tag=service,0\.000,1\.000,10\.007,HISTFAAAA[A-Za-z0-9+/=]+`,
		`Tag=response,1\.000,1\.000,0\.000,HISTFAAAA[A-Za-z0-9+/=]+`,
		`Tag=service,1\.000,1\.000,0\.000,HISTFAAAA[A-Za-z0-9+/=]+`,
	}
	got := strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")
	if len(got) != len(want) {
		t.Fatalf("got %d lines, want %d:\n%s", len(got), len(want), log.String())
	}
	for i := range want {
		if !regexp.MustCompile("^" + want[i] + "$").MatchString(got[i]) {
			t.Errorf("line %d: got %s, want %s", i+1, got[i], want[i])
		}
	}
}

func TestABadWindowIsLeftOut(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	w := hdrlog.New(&log, start)
	for name, spoil := range map[string]func(*load.Window){
		"no histogram":      func(x *load.Window) { x.Service = "" },
		"garbage":           func(x *load.Window) { x.Response = "%%%" },
		"more than a line":  func(x *load.Window) { x.Response = x.Response[:20] + "\n" + x.Response[20:] },
		"no length":         func(x *load.Window) { x.Seconds = 0 },
		"no number of time": func(x *load.Window) { x.Seconds = math.NaN() },
	} {
		x := window(t, 0)
		spoil(&x)
		if err := w.Add(x); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	if log.Len() > 0 {
		t.Errorf("bad windows wrote %q", log.String())
	}
	if err := w.Add(window(t, 1)); err != nil || strings.Count(log.String(), "Tag=") != 2 {
		t.Errorf("a good window after bad ones: got %v and %q", err, log.String())
	}
}

var errFull = errors.New("disk full")

// full takes the first writes and then no more.
type full struct{ left, tried int }

func (f *full) Write(p []byte) (int, error) {
	f.tried++
	if f.left--; f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestNothingIsWrittenAfterAnError(t *testing.T) {
	t.Parallel()
	disk := &full{left: 1}
	w := hdrlog.New(disk, start)
	if err := w.Add(window(t, 0)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.Add(window(t, 1)); !errors.Is(err, errFull) {
			t.Errorf("got %v, want %v", err, errFull)
		}
	}
	if disk.tried != 2 {
		t.Errorf("got %d writes, want 2: none after the one that failed", disk.tried)
	}
}
