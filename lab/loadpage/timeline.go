package loadpage

import (
	"fmt"
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/load"
)

// mostSlots bounds how finely time is drawn: a slot for every four pixels of a
// wide screen. A longer load has several windows in a slot, so that neither the
// page nor the memory to make it grows with a load's length.
const mostSlots = 240

// phase is the part of a load that a window belongs to.
type phase int

const (
	warmup phase = iota
	measuring
	draining // nothing is offered any more, and what was under way ends
)

func phaseOf(w *load.Window) phase {
	switch {
	case w.Warmup:
		return warmup
	case w.Drain:
		return draining
	default:
		return measuring
	}
}

// slot is one or more windows that are drawn as one.
type slot struct {
	from, to         float64 // seconds since the first window
	phase            phase
	requests, failed uint64
	late, dropped    uint64
	inFlight         int     // the most of the windows'
	busy             float64 // likewise, in cores
	response         quantiles
	service          quantiles
}

// quantiles are in milliseconds, and 0 where nothing ended.
type quantiles struct{ p50, p95, p99 float64 }

// seconds is a slot's length.
func (s *slot) seconds() float64 { return s.to - s.from }

// perSecond is a count of a slot as a rate.
func (s *slot) perSecond(n uint64) float64 {
	if s.seconds() <= 0 {
		return 0
	}
	return float64(n) / s.seconds()
}

// newTimeline gathers windows into slots, those of different phases apart.
func newTimeline(windows []load.Window) ([]slot, error) {
	var slots []slot
	per := max(1, int(math.Ceil(float64(len(windows))/mostSlots)))
	response, service := load.NewHistogram(), load.NewHistogram()
	for i := 0; i < len(windows); {
		end := i + 1
		for end < len(windows) && end < i+per && phaseOf(&windows[end]) == phaseOf(&windows[i]) {
			end++
		}
		response.Reset()
		service.Reset()
		s := slot{from: since(windows, i), phase: phaseOf(&windows[i])}
		for ; i < end; i++ {
			w := &windows[i]
			s.to = since(windows, i) + w.Seconds
			s.requests += w.Requests
			s.failed += w.Failed
			s.late += w.Late
			s.dropped += w.Dropped
			s.inFlight = max(s.inFlight, w.InFlight)
			s.busy = math.Max(s.busy, w.Busy)
			if err := merge(response, w.Response); err != nil {
				return nil, fmt.Errorf("read the response times of window %d: %w", i+1, err)
			}
			if err := merge(service, w.Service); err != nil {
				return nil, fmt.Errorf("read the service times of window %d: %w", i+1, err)
			}
		}
		s.response, s.service = quantilesOf(response), quantilesOf(service)
		slots = append(slots, s)
	}
	return slots, nil
}

// since is when a window began, in seconds since the first did.
func since(windows []load.Window, i int) float64 {
	return windows[i].Start.Sub(windows[0].Start).Seconds()
}

// merge adds an encoded histogram to a sum; an empty text is none.
func merge(sum *hdrhistogram.Histogram, encoded string) error {
	if encoded == "" {
		return nil
	}
	h, err := hdrhistogram.Decode([]byte(encoded))
	if err != nil {
		return fmt.Errorf("decode a histogram: %w", err)
	}
	sum.Merge(h)
	return nil
}

func quantilesOf(h *hdrhistogram.Histogram) quantiles {
	if h.TotalCount() == 0 {
		return quantiles{}
	}
	at := func(p float64) float64 { return float64(h.ValueAtPercentile(p)) / 1000 }
	return quantiles{at(50), at(95), at(99)}
}
