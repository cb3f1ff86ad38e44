package summary

import (
	"fmt"
	"io"
	"strings"
	"time"

	"loadstone/lab/format"
	"loadstone/lab/junit"
)

// WriteJUnit writes the thresholds and the checks as tests. A check that failed once has
// failed, unless a threshold on checks says how often it may: then that is the test. A load
// that has neither has one test: whether requests failed.
func (s *Summary) WriteJUnit(w io.Writer) error {
	suite := junit.Suite{Name: s.URL, Began: s.Started, Took: time.Duration(s.Seconds * float64(time.Second))}
	if suite.Name == "" {
		suite.Name = "load"
	}
	judged := false
	for i := range s.Thresholds {
		judged = judged || strings.HasPrefix(s.Thresholds[i].Metric, "checks")
		suite.Cases = append(suite.Cases, ofThreshold(&s.Thresholds[i]))
	}
	for _, check := range s.Checks {
		c := junit.Case{Name: strings.Join([]string{check.Scenario, check.Step, check.Name}, " / ")}
		if all := check.Passes + check.Fails; all == 0 {
			c.Skipped = "it was never made"
		} else if check.Fails > 0 && !judged {
			c.Failure = fmt.Sprintf("%s of %d answers did not pass it", format.Count(check.Fails), all)
		}
		suite.Cases = append(suite.Cases, c)
	}
	if len(suite.Cases) == 0 {
		c := junit.Case{Name: "requests succeed"}
		if s.Failed > 0 || s.Requests == 0 && s.WebSocket == nil {
			c.Failure = fmt.Sprintf("%s of %d failed", format.Count(s.Failed), s.Requests)
		}
		suite.Cases = append(suite.Cases, c)
	}
	var text strings.Builder
	if err := s.Text(&text, DefaultStyle()); err != nil {
		return err
	}
	suite.Output = text.String()
	return junit.Write(w, "loadstone load", []junit.Suite{suite})
}

// ofThreshold is a threshold as a test.
func ofThreshold(t *Threshold) junit.Case {
	c := junit.Case{Name: t.Metric + ": " + t.Expression}
	if t.Met {
		return c
	}
	c.Failure = "it was not met"
	if t.Observed != nil {
		c.Failure = fmt.Sprintf("it was %s %s", format.Beside(*t.Observed, *t.Observed), t.Unit)
	}
	if t.Reason != "" {
		c.Failure += ": " + t.Reason
	}
	return c
}
