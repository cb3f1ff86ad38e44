package report

import (
	"fmt"
	"strings"

	"loadstone/lab/axis"
	"loadstone/lab/verdict"
)

// named says whom a witness names.
func named(w verdict.Witness) string {
	limits := w.Tied
	if w.Component != "" {
		limits = []verdict.Limit{{Component: w.Component, Resource: w.Resource, Name: w.ResourceName}}
	}
	if len(limits) == 0 {
		return "names nobody"
	}
	texts := make([]string, len(limits))
	for i, l := range limits {
		texts[i] = strings.Join(strings.Fields(l.Component+" "+l.Resource+" "+l.Name), " ")
	}
	return "names " + strings.Join(texts, " and ")
}

// limitCard says what limits one variant, and shows the evidence.
type limitCard struct {
	ID, Name, LimitedBy, Summary string
	Decided                      bool
	Capacity                     string
	Witnesses                    []witnessRow
	Agreement, Advice            string
	Components                   []componentRow
	DemandUnit                   string
	RateUnit, One                string // what rates are in, and what demand is of
	Generator                    string
}

type witnessRow struct{ Name, Names, Evidence string }

// componentRow is one component with four figures; each has a bar whose length
// is a share of the column.
type componentRow struct {
	Name, Share, Memory string
	Limiting            bool
	Demand, DemandBar   string
	Bound, BoundBar     string
	BoundUse            string // the share of the bound that the capacity is
	Busy, BusyBar       string
	Throttled, ThrBar   string
}

func newLimitCard(r *Result, i int) limitCard {
	v := &r.Variants[i]
	c := limitCard{
		ID: fmt.Sprintf("limit-%d", i+1), Name: v.Name, LimitedBy: v.limitedBy(), Decided: v.Verdict.Status == Named, Summary: v.Verdict.Summary,
	}
	c.RateUnit, c.One = r.rateUnit(), "request"
	if c.RateUnit == IterationsPerSecond {
		c.One = "iteration"
	}
	rate := v.Rate
	if v.hasCapacity() {
		c.Capacity = v.capacityText()
		rate = v.Capacity.Value
	} else if isFinite(v.Rate) && v.Rate > 0 {
		c.Capacity = formatMeasured(v.Rate) + " " + r.rateUnit() + " offered"
	}
	for _, w := range v.Verdict.Witnesses {
		c.Witnesses = append(c.Witnesses, witnessRow{w.Name, named(w), w.Evidence})
	}
	c.Agreement, c.Advice = v.Verdict.Agreement, v.Verdict.Advice
	var demand axis.Extent
	for _, component := range v.Components {
		demand.See(component.DemandMS)
	}
	c.DemandUnit = "ms"
	scale := 1.0
	if demand.High < 1 { // all of them: one column, one unit
		c.DemandUnit, scale = "µs", 1000
	}
	for _, component := range v.Components {
		row := newComponentRow(component, rate, demand.High)
		row.Demand = formatMillis(component.DemandMS * scale)
		row.Limiting = c.Decided && component.Name == v.Verdict.Component
		c.Components = append(c.Components, row)
	}
	if v.Generator > 0 && isFinite(v.Generator) {
		c.Generator = formatMeasured(v.Generator) + " cores"
	}
	return c
}

func newComponentRow(c Component, rate, highestDemand float64) componentRow {
	row := componentRow{
		Name: c.Name, Share: plural(c.Instances, "instance") + ", no CPU limit",
		DemandBar: barLength(c.DemandMS / highestDemand),
		Bound:     noNumber, Busy: noNumber, BusyBar: barLength(0),
		BoundBar:  barLength(0),
		Throttled: formatPercent(c.Throttled), ThrBar: barLength(c.Throttled),
	}
	if c.MemoryBytes > 0 {
		row.Memory = formatBytes(c.MemoryBytes)
	}
	if c.LimitCPUs > 0 && isFinite(c.LimitCPUs) {
		row.Share = fmt.Sprintf("%d × %s CPU", c.Instances, formatSetting(c.LimitCPUs))
		row.Busy, row.BusyBar = formatPercent(c.Busy), barLength(c.Busy)
	}
	if c.Bound > 0 && isFinite(c.Bound) {
		row.Bound = formatMeasured(c.Bound)
		if rate > 0 && isFinite(rate) {
			row.BoundUse, row.BoundBar = formatPercent(rate/c.Bound)+" used", barLength(rate/c.Bound)
		}
	}
	return row
}

// barLength is the length of a bar for a share of 1; what is no number has none.
func barLength(share float64) string {
	if !isFinite(share) {
		return "0%"
	}
	return axis.Percent(min(max(share, 0), 1))
}
