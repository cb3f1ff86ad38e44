package report

import (
	"fmt"
	"strings"

	"loadstone/lab/chart"
	"loadstone/lab/format"
	"loadstone/lab/result"
	"loadstone/lab/verdict"
)

// demandCharts say who needs how much CPU for each request, and what that
// allows. All variants share one scale and one unit, so that a component can be
// followed from one to the next.
type demandCharts struct {
	Unit, RateUnit, One string // of demand and of bounds, and what demand is of
	AtCapacity          bool
	Charts              []demandChart
}

type demandChart struct {
	ID, Name  string
	Rows      []demandRow
	Resources []resourceRow
}

// demandRow is one component. The bar of its demand is in two parts: the kernel's
// and the rest.
type demandRow struct {
	Name, Share            string
	Limiting               bool
	Demand, Parts          string
	User, System, SystemAt string // lengths, and where the second begins
	Bound, Range           string
	Use, UseBar            string
}

// resourceRow is a pool, a lock, a queue or a stage of a pipeline.
type resourceRow struct {
	Name, Kind, Held, Bound, Range string
	Limiting                       bool
	Busy, BusyBar, Waiting, Note   string
}

func newDemandCharts(r *result.Result) *demandCharts {
	var most chart.Extent
	for _, v := range r.Variants {
		for _, c := range v.Components {
			most.See(c.DemandMS)
		}
	}
	if !most.Any {
		return nil
	}
	charts := &demandCharts{Unit: "ms", RateUnit: r.RateUnit(), One: format.One(r.RateUnit()), AtCapacity: !r.MeasuresLoad()}
	scale := 1.0
	if most.High < 1 {
		charts.Unit, scale = "µs", 1000
	}
	for i := range r.Variants {
		v := &r.Variants[i]
		if len(v.Components) == 0 {
			continue
		}
		c := demandChart{ID: fmt.Sprintf("demand-%d", i+1), Name: v.Name}
		for j := range v.Components {
			component := &v.Components[j]
			row := newDemandRow(component, measuredRate(v), most.High)
			if row.Demand = format.LatencyNumber(component.DemandMS * scale); component.NoneSeen() {
				row.Demand = format.Missing
			}
			row.Limiting = v.Verdict.LimitedBy(component.Name, "")
			c.Rows = append(c.Rows, row)
			for k := range component.Resources {
				c.Resources = append(c.Resources, newResourceRow(v, component.Name, &component.Resources[k]))
			}
		}
		charts.Charts = append(charts.Charts, c)
	}
	return charts
}

// measuredRate is the capacity, or the rate of the load as written.
func measuredRate(v *result.Variant) float64 {
	if v.HasCapacity() {
		return v.Capacity.Value
	}
	return v.Rate
}

func newDemandRow(c *verdict.Component, rate, most float64) demandRow {
	row := demandRow{Name: c.Name, Share: shareText(c), Bound: format.Missing, UseBar: barLength(0)}
	length := c.DemandMS / most
	row.User, row.System, row.SystemAt = barLength(length), barLength(0), barLength(length)
	if total := c.UserMS + c.SystemMS; total > 0 && c.SystemMS > 0 && format.Finite(total) {
		user := length * c.UserMS / total
		row.User, row.System, row.SystemAt = barLength(user), barLength(length-user), barLength(user)
		row.Parts = format.Percent(c.SystemMS/total) + " in the kernel"
	}
	if c.Visits > 0 && format.Finite(c.Visits) {
		row.Parts = strings.TrimPrefix(row.Parts+"; "+format.Measured(c.Visits)+" visits", "; ")
	}
	if c.Bound > 0 && format.Finite(c.Bound) {
		row.Bound = format.Measured(c.Bound)
		row.Range = boundRange(c.Bound, c.BoundLow, c.BoundHigh)
		if rate > 0 && format.Finite(rate) {
			row.Use, row.UseBar = format.Percent(rate/c.Bound)+" used", barLength(rate/c.Bound)
		}
	}
	return row
}

func shareText(c *verdict.Component) string {
	unseen := ""
	if c.Unseen > 0 {
		unseen = fmt.Sprintf(", %d not seen", c.Unseen)
	}
	if c.LimitCPUs > 0 && format.Finite(c.LimitCPUs) {
		return fmt.Sprintf("%d × %s CPU", c.Instances, format.Setting(c.LimitCPUs)) + unseen
	}
	if c.NoneSeen() {
		return format.Plural(c.Instances, "instance") + ", not seen"
	}
	return format.Plural(c.Instances, "instance") + ", no CPU limit" + unseen
}

// boundRange is a bound's interval over trials; empty without one.
func boundRange(bound, low, high float64) string {
	if low <= 0 || high <= 0 || !format.Finite(low) || !format.Finite(high) {
		return ""
	}
	_, l, h := format.Interval(bound, low, high)
	return "[" + l + ", " + h + "]"
}

func newResourceRow(v *result.Variant, component string, s *verdict.Resource) resourceRow {
	row := resourceRow{
		Name: component + " " + s.Name, Kind: s.Kind, Held: format.Latency(s.DemandMS), Bound: format.Missing,
		Busy: format.Percent(s.Busy), BusyBar: barLength(s.Busy), Waiting: format.Missing,
		Limiting: v.Verdict.LimitedBy(component, s.Name),
	}
	if s.Bound > 0 && format.Finite(s.Bound) {
		row.Bound, row.Range = format.Measured(s.Bound), boundRange(s.Bound, s.BoundLow, s.BoundHigh)
	}
	if s.Waiting > 0 || s.WaitMS > 0 {
		row.Waiting = format.Measured(s.Waiting)
	}
	row.Note = resourceNote(s)
	return row
}

// resourceNote is what only some kinds of resources tell.
func resourceNote(s *verdict.Resource) string {
	var notes []string
	add := func(known bool, text string) {
		if known {
			notes = append(notes, text)
		}
	}
	positive := func(v float64) bool { return v > 0 && format.Finite(v) }
	add(s.After != "", "after "+s.After)
	add(positive(s.Capacity), "size "+format.Setting(s.Capacity))
	add(positive(s.Full), "full "+format.Percent(s.Full)+" of the time")
	add(positive(s.WaitMS), "waited "+format.Milliseconds(s.WaitMS))
	add(positive(s.Depth), "holds "+format.Measured(s.Depth))
	add(s.Slope != 0 && format.Finite(s.Slope), "grows by "+format.Measured(s.Slope)+"/s")
	add(s.Consumer != "", "consumed by "+s.Consumer)
	add(positive(s.Rate), "does "+format.Measured(s.Rate)+"/s")
	if s.Backpressured != nil && format.Finite(*s.Backpressured) {
		add(true, "blocked "+format.Percent(*s.Backpressured)+" of the time")
	}
	add(positive(s.Left), format.Measured(s.Left)+" left when the load ended")
	add(positive(s.Flushed), format.Measured(s.Flushed)+" done within "+format.Measured(s.FlushSeconds)+" s after it")
	return strings.Join(notes, "; ")
}
