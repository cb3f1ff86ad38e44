package screen

import (
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/load"
)

// sparkSeconds is how much of the past the rate's drawing has.
const sparkSeconds = 60

// tally is what the windows so far amount to. It begins anew with the first
// window after the warm-up, so that at the end it says what the result says.
type tally struct {
	now     load.Window
	seconds float64   // of the load so far
	warmup  float64   // of them
	rates   []float64 // of the last windows, in requests per second

	requests, failed, late, dropped, checks, checkFails uint64

	errors                  map[string]uint64
	nowResponse, nowService *hdrhistogram.Histogram // of the last window; nil if it had none
	response, service       *hdrhistogram.Histogram
}

func newTally() *tally {
	return &tally{errors: make(map[string]uint64), response: load.NewHistogram(), service: load.NewHistogram()}
}

// add takes in a window. If its latencies cannot be read, the rest of it counts
// nevertheless.
func (t *tally) add(w *load.Window) error {
	if t.now.Warmup && !w.Warmup {
		t.restart()
	}
	t.now = *w
	t.seconds += w.Seconds
	if w.Warmup {
		t.warmup += w.Seconds
	}
	t.rates = append(t.rates, rate(w))
	if extra := len(t.rates) - sparkSeconds; extra > 0 {
		t.rates = append(t.rates[:0], t.rates[extra:]...)
	}
	t.requests += w.Requests
	t.failed += w.Failed
	t.late += w.Late
	t.dropped += w.Dropped
	t.checks += w.Checks
	t.checkFails += w.CheckFails
	for kind, n := range w.Errors {
		t.errors[kind] += n
	}
	var errResponse, errService error
	t.nowResponse, errResponse = merge(t.response, w.Response)
	t.nowService, errService = merge(t.service, w.Service)
	if errResponse != nil {
		return errResponse
	}
	return errService
}

// restart forgets what the warm-up counted.
func (t *tally) restart() {
	t.requests, t.failed, t.late, t.dropped, t.checks, t.checkFails = 0, 0, 0, 0, 0, 0
	clear(t.errors)
	t.response.Reset()
	t.service.Reset()
}

// merge reads a window's histogram and adds it to a sum.
func merge(sum *hdrhistogram.Histogram, encoded string) (*hdrhistogram.Histogram, error) {
	if encoded == "" {
		return nil, nil
	}
	h, err := hdrhistogram.Decode([]byte(encoded))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoLatency, err)
	}
	sum.Merge(h)
	return h, nil
}

// rate is a window's requests per second.
func rate(w *load.Window) float64 {
	if !(w.Seconds > 0) {
		return 0
	}
	return float64(w.Requests) / w.Seconds
}
