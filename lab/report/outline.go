package report

import (
	"loadstone/lab/format"
	"loadstone/lab/result"
	"loadstone/lab/term"
)

// Headline is a variant in a line: its capacity and its bottleneck.
type Headline struct {
	Variant string
	// Figure is the capacity, or the response time under a load as written, with
	// its unit; Interval is the capacity's, and empty where it has none.
	Figure, Interval string
	// Limit is the verdict in two or three words; Decided says that it names
	// what limits the variant.
	Limit   string
	Decided bool
	// Crossed says that an objective was not met.
	Crossed bool
}

// Headlines are the variants in the order of the experiment.
func Headlines(r *result.Result) []Headline {
	out := make([]Headline, len(r.Variants))
	for i := range r.Variants {
		v := &r.Variants[i]
		h := Headline{
			Variant: term.Printable(v.Name), Limit: term.Printable(limitedBy(v)),
			Decided: v.Verdict.Decided(),
			Crossed: objectivesCell(v).Style == term.Red,
		}
		if r.MeasuresLoad() {
			h.Figure = "p95 " + format.Latency(v.Latency.Response.P95) + " at " + format.Measured(v.Rate) + " " + term.Printable(r.RateUnit())
		} else {
			h.Figure, h.Interval = capacityCells(v, false)
			if v.HasCapacity() {
				h.Figure += " " + term.Printable(v.Capacity.Unit)
			}
		}
		out[i] = h
	}
	return out
}
