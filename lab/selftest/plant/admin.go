package plant

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// controls are what the admin address answers: GET /metrics, and PUT /pool where
// there is a pool.
func (s *Service) controls() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = io.WriteString(w, s.metrics()) // a scraper that hangs up is no news
	})
	if s.pool != nil {
		mux.HandleFunc("PUT /pool", s.resizePool)
	}
	return mux
}

func (s *Service) resizePool(w http.ResponseWriter, r *http.Request) {
	const longest = 16 // bytes of a number
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, longest))
	n, bad := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || bad != nil || n < 1 {
		http.Error(w, fmt.Sprintf("the pool's size is %q; write a whole number from 1", text), http.StatusBadRequest)
		return
	}
	s.pool.resize(n)
	w.WriteHeader(http.StatusNoContent)
}

// metrics is the Prometheus text format, written by hand: a scrape through a
// client library costs about half a millisecond, which a service with a tenth
// of a core feels.
//
//	plant_requests_total, plant_{handled,called}_seconds_total
//	plant_pool_{size,in_use,waiting}, plant_pool_wait_seconds_total
//	plant_lock_{busy,wait}_seconds_total
//	plant_wire_{busy,wait}_seconds_total
//	plant_cache_{hits,misses}_total
//	plant_queue_{depth,capacity}, plant_queue_{done,busy_seconds}_total
//	go_cpu_classes_{gc_total,user}_cpu_seconds_total, where garbage is planted
//	plant_stage_lag, plant_stage_{done,busy_seconds,backpressured_seconds}_total
func (s *Service) metrics() string {
	var b strings.Builder
	say := func(kind, name string, value float64) {
		fmt.Fprintf(&b, "# TYPE plant_%s %s\nplant_%s %g\n", name, kind, name, value)
	}
	const counter, gauge = "counter", "gauge"
	say(counter, "requests_total", float64(s.requests.Load()))
	say(counter, "handled_seconds_total", s.handled.value())
	say(counter, "called_seconds_total", s.called.value())
	if s.pool != nil {
		size, inUse, waiting := s.pool.now()
		say(gauge, "pool_size", float64(size))
		say(gauge, "pool_in_use", float64(inUse))
		say(gauge, "pool_waiting", float64(waiting))
		say(counter, "pool_wait_seconds_total", s.pool.waited.value())
	}
	if s.heap != nil {
		collecting, rest := s.heap.collected()
		fmt.Fprintf(&b, "# TYPE go_cpu_classes_gc_total_cpu_seconds_total counter\ngo_cpu_classes_gc_total_cpu_seconds_total %g\n", collecting)
		fmt.Fprintf(&b, "# TYPE go_cpu_classes_user_cpu_seconds_total counter\ngo_cpu_classes_user_cpu_seconds_total %g\n", rest)
	}
	if s.lock != nil {
		say(counter, "lock_busy_seconds_total", s.lock.busy.value())
		say(counter, "lock_wait_seconds_total", s.lock.waited.value())
	}
	if s.wire != nil {
		say(counter, "wire_busy_seconds_total", s.wire.busy.value())
		say(counter, "wire_wait_seconds_total", s.wire.waited.value())
	}
	if s.cache != nil {
		say(counter, "cache_hits_total", float64(s.cache.hits.Load()))
		say(counter, "cache_misses_total", float64(s.cache.misses.Load()))
	}
	if s.queue != nil {
		say(gauge, "queue_depth", float64(len(s.queue.jobs)))
		say(gauge, "queue_capacity", float64(cap(s.queue.jobs)))
		say(counter, "queue_done_total", float64(s.queue.done.Load()))
		say(counter, "queue_busy_seconds_total", s.queue.busy.value())
	}
	if s.stage != nil {
		say(gauge, "stage_lag", float64(s.stage.lag.Load()))
		say(counter, "stage_done_total", float64(s.stage.done.Load()))
		say(counter, "stage_busy_seconds_total", s.stage.busy.value())
		say(counter, "stage_backpressured_seconds_total", s.stage.blocked.value())
	}
	return b.String()
}
