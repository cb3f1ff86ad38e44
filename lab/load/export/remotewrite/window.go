package remotewrite

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/load"
	"loadstone/lab/load/failure"
)

// totals are the counters since the beginning of the load.
type totals struct {
	requests, failed, iterations, dropped, late, checks, checkFails, sent, received uint64

	errors map[string]uint64
}

// newTotals starts every kind of error at 0, so that its first occurrence is
// seen as an increase.
func newTotals() totals {
	t := totals{errors: make(map[string]uint64, failure.Kinds)}
	for kind := failure.None + 1; kind < failure.Kinds; kind++ {
		t.errors[kind.String()] = 0
	}
	return t
}

// add returns the totals after a window. Those before it are not changed: they
// may be waiting in the queue.
func (t totals) add(w *load.Window) totals {
	t.requests += w.Requests
	t.failed += w.Failed
	t.iterations += w.Iterations
	t.dropped += w.Dropped
	t.late += w.Late
	t.checks += w.Checks
	t.checkFails += w.CheckFails
	t.sent += w.Sent
	t.received += w.Received
	if len(w.Errors) > 0 {
		t.errors = maps.Clone(t.errors)
		for kind, n := range w.Errors {
			t.errors[kind] += n
		}
	}
	return t
}

// point is all that is sent for one moment.
type point struct {
	at     int64 // Unix time in milliseconds
	totals totals
	window *load.Window // nil at the beginning of the load, where only counters are
}

// end is when a window's counters hold.
func end(w *load.Window) time.Time {
	return w.Start.Add(time.Duration(w.Seconds * float64(time.Second)))
}

// counters are the series that only grow.
var counters = []struct {
	name string
	of   func(*totals) uint64
}{
	{"loadstone_http_reqs_total", func(t *totals) uint64 { return t.requests }},
	{"loadstone_http_req_failed_total", func(t *totals) uint64 { return t.failed }},
	{"loadstone_iterations_total", func(t *totals) uint64 { return t.iterations }},
	{"loadstone_dropped_iterations_total", func(t *totals) uint64 { return t.dropped }},
	{"loadstone_late_total", func(t *totals) uint64 { return t.late }},
	{"loadstone_checks_total", func(t *totals) uint64 { return t.checks }},
	{"loadstone_check_fails_total", func(t *totals) uint64 { return t.checkFails }},
	{"loadstone_data_sent_bytes_total", func(t *totals) uint64 { return t.sent }},
	{"loadstone_data_received_bytes_total", func(t *totals) uint64 { return t.received }},
}

// gauges are the series that say how things are.
var gauges = []struct {
	name string
	of   func(*load.Window) float64
}{
	{"loadstone_in_flight", func(w *load.Window) float64 { return float64(w.InFlight) }},
	{"loadstone_generator_busy_cores", func(w *load.Window) float64 { return w.Busy }},
	{"loadstone_warmup", func(w *load.Window) float64 {
		if w.Warmup {
			return 1
		}
		return 0
	}},
}

// latencies are the distributions, each a series for each of quantiles.
var latencies = []struct {
	name string
	of   func(*load.Window) string
}{
	{"loadstone_http_req_duration_seconds", func(w *load.Window) string { return w.Response }},
	{"loadstone_http_req_service_seconds", func(w *load.Window) string { return w.Service }},
}

var quantiles = []struct {
	label      string
	percentile float64
}{{"0.5", 50}, {"0.95", 95}, {"0.99", 99}}

// convert makes the series of a number of points, the oldest first. With last
// they are ended after it: all but the counters, whose last value is what the
// load came to. Latencies that cannot be read are left out and told.
func (w *Writer) convert(points []point, last bool) ([]series, error) {
	var all []series
	for _, c := range counters {
		s := series{labels: w.labels(c.name)}
		for i := range points {
			s.samples = append(s.samples, sample{points[i].at, float64(c.of(&points[i].totals))})
		}
		all = append(all, s)
	}
	all = append(all, w.errorKinds(points)...)
	for _, g := range gauges {
		s := series{labels: w.labels(g.name)}
		for i := range points {
			if points[i].window != nil {
				s.samples = append(s.samples, sample{points[i].at, g.of(points[i].window)})
			}
		}
		all = append(all, w.ended(s, last))
	}
	times, err := w.quantiles(points)
	for _, s := range times {
		all = append(all, w.ended(s, last))
	}
	return all, err
}

// ended ends a series a millisecond after the last point.
func (w *Writer) ended(s series, last bool) series {
	if last {
		s.samples = append(s.samples, sample{w.lastAt + 1, staleNaN})
	}
	return s
}

func (w *Writer) errorKinds(points []point) []series {
	byKind := make(map[string][]sample)
	for i := range points {
		for kind, n := range points[i].totals.errors {
			byKind[kind] = append(byKind[kind], sample{points[i].at, float64(n)})
		}
	}
	var all []series
	for _, kind := range slices.Sorted(maps.Keys(byKind)) {
		all = append(all, series{labels: w.labels("loadstone_http_req_errors_total", label{"kind", kind}), samples: byKind[kind]})
	}
	return all
}

// quantiles are the latencies of the points' windows. A window in which nothing
// ended has none, and says so, or the line would go on at its last height.
func (w *Writer) quantiles(points []point) ([]series, error) {
	var all []series
	var unread error
	for _, l := range latencies {
		three := make([]series, len(quantiles))
		for i, q := range quantiles {
			three[i].labels = w.labels(l.name, label{"quantile", q.label})
		}
		for i := range points {
			if points[i].window == nil {
				continue
			}
			h, err := read(l.of(points[i].window))
			if err != nil {
				unread = fmt.Errorf("read the latencies of a window: %w", err)
			}
			for j, q := range quantiles {
				value := staleNaN
				if h != nil && h.TotalCount() > 0 {
					value = float64(h.ValueAtPercentile(q.percentile)) / 1e6
				}
				three[j].samples = append(three[j].samples, sample{points[i].at, value})
			}
		}
		all = append(all, three...)
	}
	return all, unread
}

// read decodes a histogram; an empty text is none.
func read(encoded string) (*hdrhistogram.Histogram, error) {
	if encoded == "" {
		return nil, nil
	}
	return hdrhistogram.Decode([]byte(encoded))
}

// labels are those of one series, sorted by name.
func (w *Writer) labels(name string, more ...label) []label {
	all := append([]label{{"__name__", name}, {"job", "loadstone"}, {"run", w.cfg.Run}}, more...)
	for name, value := range w.cfg.Labels {
		all = append(all, label{name, value})
	}
	slices.SortFunc(all, func(a, b label) int { return cmp.Compare(a.name, b.name) })
	return all
}
