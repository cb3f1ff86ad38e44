package report

import (
	"fmt"
	"io"
	"strings"

	"loadstone/lab/junit"
	"loadstone/lab/result"
)

// JUnit writes a suite for each variant and a test for each of its objectives, as at its
// capacity, or under the load as written; where capacity was searched, another says that
// there was a rate at which the objectives held. It fails only if w does.
func JUnit(w io.Writer, r *result.Result) error {
	var suites []junit.Suite
	for i := range r.Variants {
		v := &r.Variants[i]
		suite := junit.Suite{Name: r.Experiment + " / " + v.Name, Began: r.Started}
		if i == 0 { // trials are interleaved: what each variant took is not known
			suite.Took = r.Finished.Sub(r.Started)
		}
		if v.Capacity != nil {
			c := junit.Case{Name: "a rate is sustained"}
			if v.Capacity.Value <= 0 {
				c.Failure = "at no rate that was tried did the objectives hold"
			}
			suite.Cases = append(suite.Cases, c)
		}
		for _, slo := range v.SLO {
			c := junit.Case{Name: slo.Metric + ": " + slo.Threshold}
			if !slo.Met {
				c.Failure = "it was " + objective(slo).observed()
			}
			suite.Cases = append(suite.Cases, c)
		}
		value, interval := capacityCells(v, false)
		suite.Output = strings.TrimSpace(fmt.Sprintf("capacity %s %s %s\n%s\n%s", value, interval, r.RateUnit(), limitedBy(v), strings.Join(v.Warnings, "\n")))
		suites = append(suites, suite)
	}
	return junit.Write(w, r.Experiment, suites)
}
