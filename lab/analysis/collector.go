package analysis

import (
	"strings"

	"loadstone/lab/load"
	"loadstone/lab/probe"
	"loadstone/lab/series"
)

// collectors are the counters of seconds in which runtimes say what collecting garbage
// took: the JVM's as the JMX exporter and as Micrometer name them, and Go's. Those of the
// JVM are of its pauses, and so no more than what it took.
var collectors = []string{
	"jvm_gc_collection_seconds_sum",
	"jvm_gc_pause_seconds_sum",
	"go_cpu_classes_gc_total_cpu_seconds_total",
}

// collecting is the CPU time for each iteration, in milliseconds, that the instances
// together took to collect garbage; 0 if they do not say.
func collecting(instances []string, scrapes []probe.Scrape, r *load.Result) float64 {
	seconds := 0.0
	for _, name := range instances {
		v := series.View{Scrapes: scrapes, Instance: name, From: r.From, To: r.To}
		for _, counter := range collectors {
			if rate, ok := v.Growth(func(s string) bool { return s == counter || strings.HasPrefix(s, counter+"{") }); ok {
				seconds += rate
				break
			}
		}
	}
	rate := r.IterationRate()
	if rate <= 0 {
		return 0
	}
	return 1000 * seconds / rate
}
