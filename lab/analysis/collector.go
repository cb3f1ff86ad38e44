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
// be like the others. used is the CPU time of each instance in the measured span, in seconds.
func collecting(used map[string]float64, scrapes []probe.Scrape, r *load.Result) float64 {
	var sum, told, all float64 // seconds
	for name, cpu := range used {
		all += cpu
		v := series.View{Scrapes: scrapes, Instance: name, From: r.From, To: r.To}
		if took, ok := collected(&v); ok {
			sum, told = sum+min(cpu, took(cpu)), told+cpu
		}
	}
	if told <= 0 || r.IterationsInTime == 0 {
		return 0
	}
	return 1000 * sum / told * all / float64(r.IterationsInTime)
}

// collected makes of the CPU time of an instance the part that went into collecting garbage. A collection of Go may be
// longer than the measured span, so its part is that of whole ones: from the end of one, at which the rest
// is counted, to that of another.
func collected(v *series.View) (took func(cpu float64) float64, ok bool) {
	for _, c := range collectors {
		is := func(counter string) func(string) bool {
			return func(s string) bool { return s == counter || strings.HasPrefix(s, counter+"{") }
		}
		each, ok := v.Growth(is(c.collecting))
		if ok && c.rest == "" {
			return func(float64) float64 { return each * v.To.Sub(v.From).Seconds() }, true
		}
		if whole, known := v.Steps(is(c.rest)); ok && known {
			each, _ := whole.Growth(is(c.collecting))
			rest, _ := whole.Growth(is(c.rest))
			return func(cpu float64) float64 { return cpu * each / (each + rest) }, true
		}
	}
	return nil, false
}
