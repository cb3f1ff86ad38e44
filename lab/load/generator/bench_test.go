package generator

import (
	"fmt"
	"os"
	"testing"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/feed"
)

// BenchmarkGenerator says what the generator itself costs, as a process of its
// own against a server in another, which answers 400 bytes from memory: CPU
// per request, and how late requests were sent. One iteration is one load of
// three seconds, so run it with -benchtime 1x.
func BenchmarkGenerator(b *testing.B) {
	url := startServer(b)
	base := load.Scenario{
		Name: "bench", Steps: []load.Step{{Request: load.Request{Method: "GET", Path: "/student/{id}"}}},
		Feed:         map[string]feed.Feed{"id": {Uniform: &[2]int64{10000, 674823}}},
		GracefulStop: time.Second,
	}
	run := func(name string, change func(*load.Scenario)) {
		s := base
		change(&s)
		plan := load.Plan{Targets: []string{url}, Scenarios: []load.Scenario{s}, Seed: 1, Warmup: 500 * time.Millisecond, Timeout: 10 * time.Second}
		b.Run(name, func(b *testing.B) {
			p, err := Start(b.Context(), playing(b, roleGenerator), os.Stderr)
			if err != nil {
				b.Fatal(err)
			}
			defer func() {
				if err := p.Close(); err != nil {
					b.Error(err)
				}
			}()
			var r load.Result
			for b.Loop() {
				if r, err = p.Run(b.Context(), plan, nil); err != nil {
					b.Fatal(err)
				}
			}
			// A busy machine cuts some off at the end.
			if cut := r.Errors["cut_off"].Count; r.Failed > cut || r.Requests == 0 {
				b.Fatalf("%d of %d requests failed: %v", r.Failed, r.Requests, r.Errors)
			}
			b.ReportMetric(float64(r.Failed), "cut-off")
			b.ReportMetric(r.Throughput(), "req/s")
			b.ReportMetric(r.Generator.CPUSeconds/float64(r.CompletedInTime)*1e6, "cpu-µs/req")
			b.ReportMetric(r.Generator.Lateness.P50*1000, "late-p50-µs")
			b.ReportMetric(r.Generator.Lateness.P99*1000, "late-p99-µs")
			b.ReportMetric(r.Service.P50*1000, "service-p50-µs")
			b.ReportMetric(r.Service.P99*1000, "service-p99-µs")
		})
	}
	for _, users := range []int{1, 64} {
		run(fmt.Sprintf("closed/%d", users), func(s *load.Scenario) {
			s.Executor, s.VUs, s.Duration = load.ConstantVUs, users, 3500*time.Millisecond
		})
	}
	for _, rate := range []float64{100, 1000, 5000, 20000} {
		run(fmt.Sprintf("open/%.0f", rate), func(s *load.Scenario) {
			s.Executor, s.Rate, s.Duration = load.ConstantArrivalRate, rate, 3500*time.Millisecond
			s.Arrivals, s.PreAllocatedVUs, s.MaxVUs = load.Poisson, 64, 1000
		})
	}
}
