package ui

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/archive"
	"loadstone/lab/host"
	"loadstone/lab/load"
	"loadstone/lab/probe"
)

const (
	// maxSeconds is how much of a trial the charts go back.
	maxSeconds = 300
	// maxPieces is how many pieces of load are listed, the latest ones. A search
	// has about a dozen.
	maxPieces = 40
	// maxComponents bounds the lanes: a system has a handful.
	maxComponents = 40
)

// current is the trial under way, as far as its raw files tell. It belongs to one
// goroutine.
type current struct {
	archive.Planned

	windows, samples tail
	seconds          []second
	pieces           []*piece
	skipped          int // pieces that are not listed any more
	cpu              []cpuSecond
	last             *host.Sample // where the second under way begins
}

// second is what the load did in one window.
type second struct {
	At       time.Time
	Rate     float64 // answered, requests per second
	P50, P95 float64 // response time, ms; NaN if nothing was answered
	Failed   uint64
	Dropped  uint64
}

// piece is a stretch of load with one plan: the sweep, a try, a slot of the
// perturbation, or the load as written. Where one ends and another begins is
// told by the windows: each begins with its warm-up, and ends with its drain.
type piece struct {
	Number   int
	Seconds  float64 // measured so far
	Requests uint64
	Failed   uint64
	Dropped  uint64
	Warming  bool // nothing has been measured yet

	response *hdrhistogram.Histogram // nil once it has ended; slow is what it said
	slow     float64
	draining bool
}

// rate is what was answered, in requests per second; NaN while nothing has been
// measured.
func (p *piece) rate() float64 {
	if p.Seconds <= 0 {
		return math.NaN()
	}
	return float64(p.Requests) / p.Seconds
}

// p95 is in milliseconds; NaN if nothing was answered.
func (p *piece) p95() float64 {
	if p.response == nil {
		return p.slow
	}
	return percentile(p.response, 95)
}

func percentile(h *hdrhistogram.Histogram, p float64) float64 {
	if h == nil || h.TotalCount() == 0 {
		return math.NaN()
	}
	return float64(h.ValueAtPercentile(p)) / 1000
}

// cpuSecond is the CPU that components used over about a second, in cores.
type cpuSecond struct {
	At    time.Time // its end
	Cores map[string]float64
}

func newCurrent(root *os.Root, p archive.Planned) *current {
	return &current{
		Planned: p,
		windows: tail{root: root, name: path.Join(p.Dir(), archive.WindowsFile)},
		samples: tail{root: root, name: path.Join(p.Dir(), probe.SamplesFile)},
	}
}

// refresh takes in what has been written since the last call.
func (c *current) refresh() error {
	if err := c.windows.read(c.window); err != nil {
		return fmt.Errorf("read %s: %w", c.windows.name, err)
	}
	if err := c.samples.read(c.sample); err != nil {
		return fmt.Errorf("read %s: %w", c.samples.name, err)
	}
	return nil
}

// window takes in a line of the generator's.
func (c *current) window(line []byte) error {
	var w load.Window
	if err := json.Unmarshal(line, &w); err != nil {
		return err
	}
	if !(w.Seconds > 0) {
		return nil
	}
	var h *hdrhistogram.Histogram
	if w.Requests > 0 {
		var err error
		if h, err = hdrhistogram.Decode([]byte(w.Response)); err != nil {
			return fmt.Errorf("decode a histogram: %w", err)
		}
	}
	c.seconds = append(c.seconds, second{
		At: w.Start, Rate: float64(w.Requests) / w.Seconds, P50: percentile(h, 50), P95: percentile(h, 95),
		Failed: w.Failed, Dropped: w.Dropped,
	})
	c.seconds = c.seconds[max(0, len(c.seconds)-maxSeconds):]
	c.piece(&w).add(&w, h)
	return nil
}

// piece is the one that a window belongs to.
func (c *current) piece(w *load.Window) *piece {
	n := len(c.pieces)
	if n > 0 {
		last := c.pieces[n-1]
		if warm := w.Warmup && !last.Warming; !warm && (w.Drain || !last.draining) {
			return last
		}
	}
	c.pieces = append(c.pieces, &piece{Number: c.skipped + n + 1, Warming: true, response: load.NewHistogram()})
	if n > 0 {
		c.pieces[n-1].settle()
	}
	if n == maxPieces {
		c.pieces, c.skipped = c.pieces[1:], c.skipped+1
	}
	return c.pieces[len(c.pieces)-1]
}

// settle lets go of the histogram of a piece that has ended: 200 KiB.
func (p *piece) settle() { p.slow, p.response = p.p95(), nil }

func (p *piece) add(w *load.Window, h *hdrhistogram.Histogram) {
	p.draining = w.Drain
	if w.Warmup {
		return
	}
	p.Warming = false
	p.Requests, p.Failed, p.Dropped = p.Requests+w.Requests, p.Failed+w.Failed, p.Dropped+w.Dropped
	if !w.Drain {
		p.Seconds += w.Seconds
	}
	if h != nil {
		p.response.Merge(h)
	}
}

// sample takes in a line of the probe's. Ten of them are a second of the chart.
func (c *current) sample(line []byte) error {
	var s host.Sample
	if err := json.Unmarshal(line, &s); err != nil {
		return err
	}
	if c.last == nil {
		c.last = &s
		return nil
	}
	span := s.At.Sub(c.last.At)
	if span < time.Second {
		return nil
	}
	at := cpuSecond{At: s.At, Cores: map[string]float64{}}
	for _, in := range s.Instances {
		i := slices.IndexFunc(c.last.Instances, func(b host.Instance) bool { return b.Name == in.Name })
		if name := component(in.Name); i >= 0 && in.CPU >= c.last.Instances[i].CPU {
			at.Cores[name] += float64(in.CPU-c.last.Instances[i].CPU) / float64(span)
		}
	}
	c.cpu = append(c.cpu, at)
	c.cpu = c.cpu[max(0, len(c.cpu)-maxSeconds):]
	c.last = &s
	return nil
}

// component is the service of an instance: api of api-2.
func component(instance string) string {
	if i := strings.LastIndexByte(instance, '-'); i > 0 {
		return instance[:i]
	}
	return instance
}

// components are those of which CPU was seen, in the probe's order.
func (c *current) components() []string {
	var out []string
	if c.last == nil {
		return out
	}
	for _, in := range c.last.Instances {
		if name := component(in.Name); !slices.Contains(out, name) && len(out) < maxComponents {
			out = append(out, name)
		}
	}
	return out
}
