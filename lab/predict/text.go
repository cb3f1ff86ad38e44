package predict

import (
	"fmt"
	"io"
	"math"
	"strings"

	"loadstone/lab/format"
	"loadstone/lab/model/queueing"
	"loadstone/lab/stats"
	"loadstone/lab/term"
)

// Text writes an answer for people.
func Text(w io.Writer, a *Answer) error {
	var b strings.Builder
	with := "as it is"
	if len(a.Changes) > 0 {
		with = "with " + strings.Join(a.Changes, ", ")
	}
	fmt.Fprintf(&b, "%s of %s, %s", a.Variant, a.Run, with)
	if a.Objective != "" {
		fmt.Fprintf(&b, ", under %s", a.Objective)
	}
	b.WriteString("\n\n")
	a.capacity(&b)
	a.loads(&b)
	a.closed(&b)
	a.check(&b)
	b.WriteString("\nassumed\n")
	for _, text := range a.Assumptions {
		fmt.Fprintf(&b, "  - %s\n", text)
	}
	for _, text := range a.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (a *Answer) capacity(b *strings.Builder) {
	fmt.Fprintf(b, "predicted  %s %s\n", estimated(a.Capacity), a.Unit)
	if a.Measured != nil && a.Base != nil {
		base := ""
		if *a.Base != a.Measured.Value {
			base = fmt.Sprintf(" (%s as corrected)", format.Measured(*a.Base))
		}
		fmt.Fprintf(b, "measured   %s %s without the changes%s, so ×%s\n", estimated(*a.Measured), a.Unit, base, format.Measured(a.Capacity.Value / *a.Base))
		fmt.Fprintf(b, "corrected  ×%s, by what the model is off in %s\n", format.Measured(a.Factor), strings.Join(a.CorrectedBy, ", "))
	}
	fmt.Fprintf(b, "limit      %s", a.limiting(&a.Limit))
	if a.Sure < 0.995 {
		fmt.Fprintf(b, ", in %s of the draws from the demands' intervals", format.Percent(a.Sure))
	}
	if a.Before.Station != a.Limit.Station {
		fmt.Fprintf(b, "; before it was %s", a.system.resource(a.Before.Station))
	}
	b.WriteByte('\n')
	if a.Next != nil {
		fmt.Fprintf(b, "next       %s\n", a.limiting(a.Next))
	}
}

// limiting says at which rate a station limits, and its bound, which lies above that: only
// the same one of both can be compared with another's.
func (a *Answer) limiting(l *queueing.Limit) string {
	return fmt.Sprintf("%s, at about %s %s (its bound is %s)", a.system.resource(l.Station), format.Measured(l.Capacity), a.Unit, format.Measured(l.Bound))
}

func (a *Answer) loads(b *strings.Builder) {
	b.WriteByte('\n')
	table := term.NewTable(2, "lllll", "component", "size", "CPU or slot each, ms", "bound, "+a.Unit, "busy")
	for _, l := range a.Loads {
		size, bound := l.Size, "–"
		if l.WasSize != "" {
			size += " (was " + l.WasSize + ")"
		}
		if l.Bound > 0 {
			bound = format.Measured(l.Bound)
		}
		demand := l.Demand
		demand.Value, demand.Low, demand.High = 1000*demand.Value, 1000*demand.Low, 1000*demand.High
		each := estimated(demand)
		if l.Idle > 0 {
			each += " and " + format.Measured(l.Idle) + " CPU"
		}
		table.AddTexts(l.Name, size, each, bound, format.Percent(l.Busy))
	}
	b.WriteString(table.Text(false))
}

func (a *Answer) closed(b *strings.Builder) {
	c := a.Closed
	if c == nil {
		return
	}
	fmt.Fprintf(b, "\n%d users who think for %s: %s %s, answered in %s on average (%s mean-value analysis)\n",
		c.Users, seconds(c.Think), format.Measured(c.Throughput), a.Unit, seconds(c.Response), c.Method)
	fmt.Fprintf(b, "  bounds %s to %s %s; queueing begins at about %s users\n",
		format.Measured(c.Bounds.Low), format.Measured(c.Bounds.High), a.Unit, format.Measured(math.Ceil(c.Bounds.Knee)))
	if a.Measured != nil && (a.Factor < 0.95 || a.Factor > 1.05) && c.Throughput > 0.7*a.Limit.Bound {
		fmt.Fprintf(b, "  near the limit expect ×%s of that, as where it was corrected\n", format.Measured(a.Factor))
	}
}

func (a *Answer) check(b *strings.Builder) {
	c := a.Check
	if c == nil {
		return
	}
	off := "the error of the prediction is " + format.Change(c.Error)
	switch {
	case c.TooLow:
		off = "the prediction is too low"
	case c.LowerBound:
		off = "the measurement ended before the system did, so it is not known how far the prediction is off"
	}
	fmt.Fprintf(b, "\nchecked    measured %s %s in %s: %s\n", c.measured(), a.Unit, c.Run, off)
	if c.Again > 0 {
		fmt.Fprintf(b, "           %s had a capacity of %s %s there; as a factor the error of the prediction is %s\n",
			a.Variant, format.Measured(c.Again), a.Unit, format.Change(c.ErrorOfRatio))
	}
	if c.Limit != "" && c.Limit != a.system.componentOf(a.Limit.Station) {
		fmt.Fprintf(b, "           it was limited by %s, and not by %s\n", c.Limit, a.Limit.Station)
	}
}

// seconds writes a time given in seconds.
func seconds(s float64) string {
	if s < 1 {
		return format.Measured(1000*s) + " ms"
	}
	return format.Setting(s) + " s"
}

// estimated writes an estimate with its interval and confidence.
func estimated(e stats.Interval) string {
	v, low, high := format.Interval(e.Value, e.Low, e.High)
	if e.Confidence == 0 {
		return v
	}
	return fmt.Sprintf("%s [%s, %s]", v, low, high)
}
