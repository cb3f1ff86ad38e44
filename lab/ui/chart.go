package ui

import (
	"fmt"
	"math"
	"strings"
	"time"

	"loadstone/lab/format"
)

// lane is one figure over the last seconds, as a filled curve: the mark of the
// report's charts. Its horizontal lengths are shares of a thousand.
type lane struct {
	Name string
	Note string // what it is now, and its scale
	Desc string // for those who do not see it
	Path string
	Kind string // the style of its area: "", "rate" or "hot"
}

// laneHeight is the top of a lane, in the units of its path.
const laneHeight = 100.0

// point is a figure at a moment; NaN where it is not known.
type point struct {
	at    time.Time
	value float64
}

// newLane draws points between two moments. The lane is as high as top, or as
// the highest point if top is 0.
func newLane(name string, points []point, from, to time.Time, top float64) lane {
	highest := 0.0
	for _, p := range points {
		if format.Finite(p.value) {
			highest = max(highest, p.value)
		}
	}
	scale := max(top, highest)
	l := lane{Name: name}
	if !(scale > 0) || !to.After(from) {
		return l
	}
	var b strings.Builder
	open := false
	end := 0.0
	for _, p := range points {
		x := 1000 * float64(p.at.Sub(from)) / float64(to.Sub(from))
		if x = min(max(x, 0), 1000); !format.Finite(p.value) {
			if open {
				fmt.Fprintf(&b, "L%.1f 100Z", end)
			}
			open = false
			continue
		}
		y := laneHeight * (1 - max(0, p.value)/scale)
		if !open {
			fmt.Fprintf(&b, "M%.1f 100", x)
		}
		fmt.Fprintf(&b, "L%.1f %.1f", x, y)
		open, end = true, x
	}
	if open {
		fmt.Fprintf(&b, "L%.1f 100Z", end)
	}
	l.Path = b.String()
	return l
}

// loadLanes are what the load did: answered, response time and failures.
func (c *current) loadLanes() []lane {
	if len(c.seconds) == 0 {
		return nil
	}
	from, to := c.span()
	figure := func(of func(second) float64) []point {
		out := make([]point, len(c.seconds))
		for i, s := range c.seconds {
			out[i] = point{s.At, of(s)}
		}
		return out
	}
	highest := func(points []point) float64 {
		top := 0.0
		for _, p := range points {
			if format.Finite(p.value) {
				top = max(top, p.value)
			}
		}
		return top
	}
	last := c.seconds[len(c.seconds)-1]
	answered := figure(func(s second) float64 { return s.Rate })
	slow := figure(func(s second) float64 { return s.P95 })
	half := figure(func(s second) float64 { return s.P50 })
	lost := figure(func(s second) float64 { return float64(s.Failed + s.Dropped) })
	rate := newLane("answered, req/s", answered, from, to, 0)
	rate.Kind, rate.Note = "rate", format.Measured(last.Rate)+", most "+format.Measured(highest(answered))
	p95 := newLane("p95 of response time", slow, from, to, 0)
	p95.Note = format.Latency(last.P95) + ", most " + format.Latency(highest(slow))
	p50 := newLane("p50 of response time", half, from, to, highest(slow))
	p50.Note = format.Latency(last.P50) + ", on the same scale"
	failed := newLane("failed or dropped, a second", lost, from, to, 0)
	failed.Kind, failed.Note = "hot", fmt.Sprintf("%d, most %.0f", last.Failed+last.Dropped, highest(lost))
	return described([]lane{rate, p95, p50, failed})
}

// cpuLanes are the components' CPU. A lane is as high as the component's share,
// where that is known.
func (c *current) cpuLanes(limits map[string]float64) []lane {
	var out []lane
	if len(c.cpu) == 0 {
		return nil
	}
	from, to := c.span()
	for _, name := range c.components() {
		points := make([]point, len(c.cpu))
		now := math.NaN()
		for i, s := range c.cpu {
			v, ok := s.Cores[name]
			if !ok {
				v = math.NaN()
			}
			points[i], now = point{s.At, v}, v
		}
		l := newLane(name, points, from, to, limits[name])
		l.Note = format.Measured(now) + " cores"
		if limit := limits[name]; limit > 0 {
			l.Note = format.Measured(now) + " of " + format.Setting(limit) + " cores"
			if now > 0.9*limit {
				l.Kind = "hot"
			}
		}
		out = append(out, l)
	}
	return described(out)
}

func described(lanes []lane) []lane {
	for i := range lanes {
		lanes[i].Desc = lanes[i].Name + ": now " + lanes[i].Note
	}
	return lanes
}

// span is the time that the charts show: that of the windows and samples that
// are kept.
func (c *current) span() (from, to time.Time) {
	see := func(t time.Time) {
		if from.IsZero() || t.Before(from) {
			from = t
		}
		if t.After(to) {
			to = t
		}
	}
	if n := len(c.seconds); n > 0 {
		see(c.seconds[0].At)
		see(c.seconds[n-1].At)
	}
	if n := len(c.cpu); n > 0 {
		see(c.cpu[0].At)
		see(c.cpu[n-1].At)
	}
	if earliest := to.Add(-maxSeconds * time.Second); from.Before(earliest) {
		from = earliest
	}
	return from, to
}
