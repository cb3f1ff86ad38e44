package service

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// RegisterProcess adds what every process has: the metrics
// go_* of its runtime and process_* of the kernel, such as processor time in seconds
// and memory in bytes. It fails if r has them already.
func RegisterProcess(r prometheus.Registerer) error {
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := r.Register(c); err != nil {
			return fmt.Errorf("register metrics of the process: %w", err)
		}
	}
	return nil
}
