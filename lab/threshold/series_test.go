package threshold

import (
	"runtime"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/load"
)

// busySecond is a window with a thousand different times in it.
func busySecond(tb testing.TB) load.Window {
	tb.Helper()
	h := load.NewHistogram()
	for i := range int64(1000) {
		if err := h.RecordValue(500 + i*i); err != nil {
			tb.Fatal(err)
		}
	}
	text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		tb.Fatal(err)
	}
	return load.Window{Seconds: 1, Requests: 1000, Response: string(text), Service: string(text)}
}

// watchForLong adds n seconds to a watch of a few thresholds, each with
// histograms of its own in memory, as if they had been read from a pipe.
func watchForLong(tb testing.TB, n int) *Watch {
	tb.Helper()
	var thresholds []Threshold
	for _, text := range []string{"p(95)<1e6", "p(99)<1e6 over 10s", "max<1e6 over 10s", "p(95)<1e6 over 2m"} {
		x, err := Parse(HTTPReqDuration, text)
		if err != nil {
			tb.Fatal(err)
		}
		x.AbortOnFail = true
		thresholds = append(thresholds, x)
	}
	w := NewWatch(thresholds)
	window, began := busySecond(tb), time.Unix(1e9, 0)
	for k := range n {
		x := window
		x.Start = began.Add(time.Duration(k) * time.Second)
		x.Response, x.Service = string([]byte(x.Response)), string([]byte(x.Service))
		if abort, err := w.Add(x); err != nil || abort != "" {
			tb.Fatalf("second %d: %s, %v", k, abort, err)
		}
	}
	return w
}

// TestMemoryDoesNotGrowWithTheLoad looks at what a watch holds, and not at the
// heap alone, which other tests use too.
func TestMemoryDoesNotGrowWithTheLoad(t *testing.T) {
	w := watchForLong(t, 250)
	if len(w.series) != 3 {
		t.Fatalf("got %d series for 4 thresholds, want 3: those over 10s share one", len(w.series))
	}
	for i, want := range []int{0, 10, 120} {
		s := w.series[i]
		if len(s.seconds) != want || cap(s.seconds) > 4*want {
			t.Errorf("over %s: got %d seconds in room for %d, want %d", s.over, len(s.seconds), cap(s.seconds), want)
		}
		if got := s.distribution.read().TotalCount(); want > 0 && got != int64(1000*want) {
			t.Errorf("over %s: got %d times in the window, want %d", s.over, got, 1000*want)
		}
	}
	if len(w.decoder.done) > 0 {
		t.Errorf("%d decoded histograms are kept", len(w.decoder.done))
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	runtime.KeepAlive(w) // until here: the next collection takes it
	runtime.GC()
	runtime.ReadMemStats(&after)
	t.Logf("a watch of 4 thresholds holds %d KiB", (int64(before.HeapAlloc)-int64(after.HeapAlloc))/1024)
}

// BenchmarkAdd is what a second of a load costs the watching of four thresholds.
func BenchmarkAdd(b *testing.B) {
	b.ReportAllocs()
	w := watchForLong(b, b.N)
	runtime.KeepAlive(w)
}
