package job

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics tell how long answers took, those that were served apart from those that
// were refused, so that an experiment can bound each. They are gauges and not
// histograms, because experiments follow what a number is, second by second:
//
//	handle_p99_seconds    of the answers of the last whole second, by outcome:
//	                      served, refused; 0 if there were none
type metrics struct {
	served, refused window
}

func newMetrics(to prometheus.Registerer) *metrics {
	m := &metrics{}
	for outcome, w := range map[string]*window{"served": &m.served, "refused": &m.refused} {
		promauto.With(to).NewGaugeFunc(prometheus.GaugeOpts{
			Name: "handle_p99_seconds", Help: "99th percentile of the last whole second's answers.",
			ConstLabels: prometheus.Labels{"outcome": outcome},
		}, func() float64 { return w.last(time.Now()).Seconds() })
	}
	return m
}

// window keeps the times of one second. Beyond windowMost the rest of the second is
// left out; by then the sample is large enough.
type window struct {
	mu     sync.Mutex
	second int64 // since 1970, that times are of
	times  []time.Duration
	p99    time.Duration // of the second before that
}

const windowMost = 20_000

func (w *window) observe(d time.Duration) { w.observeAt(d, time.Now()) }

func (w *window) observeAt(d time.Duration, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn(now)
	if len(w.times) < windowMost {
		w.times = append(w.times, d)
	}
}

func (w *window) last(now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn(now)
	return w.p99
}

// turn begins a new second if one has begun. The percentile is the nearest rank:
// the smallest time that at least 99 of 100 do not exceed.
func (w *window) turn(now time.Time) {
	second := now.Unix()
	if second == w.second {
		return
	}
	w.p99 = 0
	if n := len(w.times); n > 0 && second == w.second+1 {
		slices.Sort(w.times)
		const percentile, hundred = 99, 100
		w.p99 = w.times[(n*percentile+hundred-1)/hundred-1]
	}
	w.second, w.times = second, w.times[:0]
}
