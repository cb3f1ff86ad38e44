package queue

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are a consumer's counters. They have no labels:
//
//	queue_handled_total        messages that the handler has done
//	queue_redeliveries_total   messages given to the handler once more
//	queue_dead_letters_total   messages put aside
//	queue_sessions_total       times that the consumer (re)joined its queue
type Metrics struct {
	done, again, dead, sessions prometheus.Counter
}

// NewMetrics registers a consumer's counters.
func NewMetrics(r prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return promauto.With(r).NewCounter(prometheus.CounterOpts{Name: "queue_" + name + "_total", Help: help})
	}
	return &Metrics{
		done:     counter("handled", "Messages that the handler has done."),
		again:    counter("redeliveries", "Messages given to the handler once more."),
		dead:     counter("dead_letters", "Messages put aside because the handler refused them."),
		sessions: counter("sessions", "Times that the consumer joined its queue."),
	}
}

func (m *Metrics) handled(n int)     { m.done.Add(float64(n)) }
func (m *Metrics) redelivered(n int) { m.again.Add(float64(n)) }
func (m *Metrics) buried()           { m.dead.Inc() }

// Session counts that a driver (re)joined its queue.
func (m *Metrics) Session() { m.sessions.Inc() }

// statsTimeout bounds the question behind a scrape: a broker that takes longer
// than a second to say how it stands would stall the scraper, whose own time is
// ten. statsAge is for how long an answer serves further scrapes.
const (
	statsTimeout = time.Second
	statsAge     = 200 * time.Millisecond
)

// gauges asks a queue how it stands whenever it is scraped.
type gauges struct {
	ask                           func(context.Context) (Stats, error)
	depth, capacity, oldest, dead *prometheus.Desc

	mu   sync.Mutex // held while asking: one question at a time
	last Stats
	at   time.Time
}

// RegisterStats exports what ask says, asked when scraped:
//
//	queue_depth            messages accepted and not yet handled
//	queue_capacity         at how many the queue is full
//	queue_oldest_seconds   age of the oldest of them, 0 if there is none; absent where
//	                       the broker does not tell
//	queue_put_aside        messages put aside that lie there
//
// While the queue does not answer, they are absent rather than old.
func RegisterStats(r prometheus.Registerer, ask func(context.Context) (Stats, error)) {
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc("queue_"+name, help, nil, nil) }
	r.MustRegister(&gauges{
		ask:      ask,
		depth:    desc("depth", "Messages accepted and not yet handled."),
		capacity: desc("capacity", "Messages at which the queue is full."),
		oldest:   desc("oldest_seconds", "Age of the oldest message not yet handled."),
		dead:     desc("put_aside", "Messages put aside that lie there."),
	})
}

// Describe implements prometheus.Collector.
func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.depth, g.capacity, g.oldest, g.dead} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	s, ok := g.stats()
	if !ok {
		return
	}
	gauge := func(d *prometheus.Desc, v float64) { ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	gauge(g.depth, float64(s.Depth))
	gauge(g.capacity, float64(s.Capacity))
	if s.OldestKnown {
		gauge(g.oldest, s.Oldest.Seconds())
	}
	gauge(g.dead, float64(s.Dead))
}

func (g *gauges) stats() (Stats, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.at.IsZero() && time.Since(g.at) < statsAge {
		return g.last, true
	}
	ctx, cancel := context.WithTimeout(context.Background(), statsTimeout)
	defer cancel()
	s, err := g.ask(ctx)
	if err != nil {
		return Stats{}, false
	}
	g.last, g.at = s, time.Now()
	return s, true
}
