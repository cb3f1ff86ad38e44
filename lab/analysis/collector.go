package analysis

import (
	"strings"

	"loadstone/lab/load"
	"loadstone/lab/probe"
	"loadstone/lab/series"
)

// collectors are the counters of seconds in which runtimes say what collecting garbage
// took: the JVM's as the JMX exporter and as Micrometer name them, and Go's. Those of the
// JVM are of its pauses, and so no more than what it took. Go's count the time for which a quota
// stops the program as well. Its other counter, of everything else, does so too, so that
// the two together say which part collecting was.
var collectors = []struct{ collecting, rest string }{
	{"jvm_gc_collection_seconds_sum", ""},
	{"jvm_gc_pause_seconds_sum", ""},
	{"go_cpu_classes_gc_total_cpu_seconds_total", "go_cpu_classes_user_cpu_seconds_total"},
}

// collecting is the part of a service's CPU time for each iteration, in milliseconds, that its instances
// together took to collect garbage; 0 if they do not say. An instance that does not say is taken to
// be like the others.
func collecting(instances []string, span probe.Span, scrapes []probe.Scrape, r *load.Result) float64 {
	var sum, told, all float64 // seconds
	for _, name := range instances {
		cpu := span.Instances[name].CPU.Seconds()
		all += cpu
		v := series.View{Scrapes: scrapes, Instance: name, From: r.From, To: r.To}
		if took, ok := collected(&v, cpu); ok {
			sum, told = sum+min(cpu, took), told+cpu
		}
	}
	if told <= 0 || r.IterationsInTime == 0 {
		return 0
	}
	return 1000 * sum / told * all / float64(r.IterationsInTime)
}

// collected is how long an instance collected garbage in the view, in which it used so much CPU time, in seconds. A
// collection of Go may be longer than the view, so its part is that of whole ones: from the end of one, at
// which the rest is counted, to that of another.
func collected(v *series.View, cpu float64) (seconds float64, ok bool) {
	is := func(counter string) func(string) bool {
		return func(s string) bool { return s == counter || strings.HasPrefix(s, counter+"{") }
	}
	for _, c := range collectors {
		if c.rest == "" {
			if each, ok := v.Growth(is(c.collecting)); ok {
				return each * v.To.Sub(v.From).Seconds(), true
			}
			continue
		}
		whole, known := v.Steps(is(c.rest))
		each, ok := whole.Growth(is(c.collecting))
		if rest, _ := whole.Growth(is(c.rest)); known && ok {
			return cpu * each / (each + rest), true
		}
	}
	return 0, false
}
