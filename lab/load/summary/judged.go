package summary

import (
	"cmp"
	"fmt"

	"loadstone/lab/format"
	"loadstone/lab/load"
	"loadstone/lab/term"
	"loadstone/lab/threshold"
)

func order[T cmp.Ordered](a, b T) int { return cmp.Compare(a, b) }

// thresholds writes k6's ticks and crosses: what was asked for, and what was
// observed.
func (s *Summary) thresholds(p *page) {
	if len(s.Thresholds) == 0 {
		return
	}
	p.heading("Thresholds")
	var metric, expression, widest int
	for i := range s.Thresholds {
		t := &s.Thresholds[i]
		metric = max(metric, term.Columns(p.clean(t.Metric)))
		expression = max(expression, term.Columns(p.clean(t.Expression)))
		widest = max(widest, term.Columns(observed(t)))
	}
	// Names with selectors can be too long for one line: then all take two.
	oneLine := 2+term.Columns(p.or("✗", "FAIL"))+1+metric+2+expression+2+widest <= p.style.Width
	for i := range s.Thresholds {
		t := &s.Thresholds[i]
		name, asked, got := p.clean(t.Metric), p.clean(t.Expression), observed(t)
		if !t.Met {
			got = p.paint(term.Red, got)
		}
		if oneLine {
			p.line("  ", p.mark(t.Met), " ", term.Pad(name, metric), "  ", term.Pad(asked, expression), "  ", got)
		} else {
			p.line("  ", p.mark(t.Met), " ", name)
			p.line("      ", term.Pad(asked, expression), "  ", got)
		}
		if t.Reason != "" {
			p.wrapped(term.Plain, "      ", "      ", p.clean(t.Reason))
		}
	}
}

// observed writes a threshold's figure in the threshold's own unit, so that the
// two can be compared by eye, with five digits: at three, 200.4 would be the
// 200 that it has crossed.
func observed(t *Threshold) string {
	const significant = 5
	if t.Observed == nil {
		return "nothing observed"
	}
	v := *t.Observed
	var text string
	switch threshold.Unit(t.Unit) {
	case threshold.Share:
		text = format.Short(v*100, significant) + "%"
	case threshold.PerSecond:
		text = format.Digits(v, significant) + "/s"
	case threshold.Count:
		text = format.Short(v, significant)
	default:
		text = format.Digits(v, significant) + " " + t.Unit
	}
	return "observed " + text
}

// checks writes the checks, below their steps if there are several.
func (s *Summary) checks(p *page) {
	if len(s.Checks) == 0 {
		return
	}
	p.heading("Checks")
	steps, scenarios := map[string]bool{}, map[string]bool{}
	for i := range s.Checks {
		c := &s.Checks[i]
		scenarios[c.Scenario] = true
		steps[c.Scenario+"\x00"+c.Step] = true
	}
	var passes, fails uint64
	last := ""
	for i := range s.Checks {
		c := &s.Checks[i]
		passes, fails = passes+c.Passes, fails+c.Fails
		indent := "  "
		if len(steps) > 1 {
			name := c.Step
			if len(scenarios) > 1 {
				name = c.Scenario + "/" + name
			}
			if name != last {
				p.line("  ", p.clean(name))
			}
			last, indent = name, "    "
		}
		p.check(indent, c)
	}
	if all := passes + fails; all > 0 {
		p.line(fmt.Sprintf("  %s of %s held", percent(float64(passes)/float64(all)), format.Count(all)))
	}
}

// check writes one check; one that was never made is neither good nor bad.
func (p *page) check(indent string, c *load.CheckResult) {
	name := p.clean(c.Name)
	all := c.Passes + c.Fails
	switch {
	case all == 0:
		p.line(indent, "- ", name, "  (never made)")
	case c.Fails == 0:
		p.line(indent, p.mark(true), " ", name)
	default:
		p.line(indent, p.mark(false), " ", name)
		p.line(indent, " ", p.or("↳", "->"), " ", percent(float64(c.Passes)/float64(all)), p.or(" — ", " - "),
			p.mark(true), " ", format.Count(c.Passes), " / ", p.mark(false), " ", format.Count(c.Fails))
	}
}
