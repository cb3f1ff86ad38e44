// Package hdrlog writes the windows of a load as an HdrHistogram log, format
// version 1.3, which HistogramLogProcessor, HistogramLogAnalyzer and the
// readers of the HdrHistogram libraries read.
//
// Each window is two lines: one of response times, tagged "response", and one of
// service times, tagged "service". A tool that was not told a tag shows neither:
// HistogramLogProcessor takes -tag response.
//
// Histograms are written as they come, in microseconds. Interval_Max is in
// milliseconds, so the max value unit ratio is 1000; the format's usual ratio of
// 1,000,000 is for histograms in nanoseconds. A tool that prints values from the
// histograms has to divide by 1000 for milliseconds (-outputValueUnitRatio 1000).
//
// Windows of the warm-up are left out, so that the log's sum is the load's. It
// has requests by the time at which they ended, and a load.Result by their
// intended time: the two differ by what the warm-up left under way.
//
// HistogramLogWriter of the Go library is not used: it takes whole histograms,
// which would have to be encoded again, its ratio cannot be set, and it writes
// times of start as whole seconds.
package hdrlog

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/load"
)

// The tags of the lines.
const (
	Response = "response"
	Service  = "service"
)

// unitRatio is how many of the histograms' unit are one of Interval_Max's.
const unitRatio = 1000

// Writer writes one log. It is used by one goroutine at a time.
type Writer struct {
	w     io.Writer
	start time.Time
	begun bool
	err   error // the first that writing had; nothing is written after it
}

// New returns a writer of a log that begins at start, which the times in the
// log are relative to. The log's head is written with the first window. The
// writer closes nothing.
func New(w io.Writer, start time.Time) *Writer {
	return &Writer{w: w, start: start}
}

// Add appends a window, in one write. A window of the warm-up is left out. The
// error is that a histogram cannot be read, and then the window is not in the
// log, or that writing failed, and then nothing is written any more.
func (w *Writer) Add(window load.Window) error {
	switch {
	case w.err != nil:
		return w.err
	case window.Warmup:
		return nil
	case math.IsNaN(window.Seconds) || math.IsInf(window.Seconds, 0) || window.Seconds <= 0:
		return fmt.Errorf("write a histogram log: a window of the load is %g seconds long", window.Seconds)
	}
	var text strings.Builder
	if !w.begun {
		text.WriteString(w.head())
	}
	from := window.Start.Sub(w.start).Seconds()
	for _, line := range [][2]string{{Response, window.Response}, {Service, window.Service}} {
		most, err := intervalMax(line[1])
		if err != nil {
			return fmt.Errorf("write a histogram log: %s times from second %.3f: %w", line[0], from, err)
		}
		fmt.Fprintf(&text, "Tag=%s,%.3f,%.3f,%.3f,%s\n", line[0], from, window.Seconds, most, line[1])
	}
	if _, err := io.WriteString(w.w, text.String()); err != nil {
		w.err = fmt.Errorf("write a histogram log: %w", err)
		return w.err
	}
	w.begun = true
	return nil
}

// head returns the lines before the first interval. The base time makes the
// times of the lines relative to the start; without it readers guess.
func (w *Writer) head() string {
	seconds := float64(w.start.UnixMilli()) / 1000
	return fmt.Sprintf(`#[Response and service times of a load, by tag]
#[Values are microseconds; Interval_Max is milliseconds: max value unit ratio %d]
#[Histogram log format version 1.3]
#[BaseTime: %.3f (seconds since epoch)]
#[StartTime: %.3f (seconds since epoch), %s]
"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"
`, unitRatio, seconds, seconds, w.start.UTC().Format("2006-01-02T15:04:05.000Z07:00"))
}

// intervalMax returns the greatest value of an encoded histogram in
// milliseconds. It refuses what would not be one field of one line.
func intervalMax(encoded string) (float64, error) {
	if strings.ContainsAny(encoded, "\r\n") {
		return 0, fmt.Errorf("the encoded histogram has more than one line")
	}
	h, err := hdrhistogram.Decode([]byte(encoded))
	if err != nil {
		return 0, fmt.Errorf("decode the histogram: %w", err)
	}
	return float64(h.Max()) / unitRatio, nil
}
