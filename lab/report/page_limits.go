package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"loadstone/lab/chart"
	"loadstone/lab/format"
	"loadstone/lab/result"
	"loadstone/lab/verdict"
)

// named says whom a witness names.
func named(w verdict.Witness) string {
	limits := w.Tied
	if w.Component != "" {
		limits = []verdict.Limit{{Component: w.Component, Resource: w.Resource, Name: w.ResourceName}}
	}
	if len(limits) == 0 {
		return "names no component"
	}
	texts := make([]string, len(limits))
	for i, l := range limits {
		texts[i] = strings.Join(strings.Fields(l.Component+" "+l.Resource+" "+l.Name), " ")
	}
	return "names " + strings.Join(texts, " and ")
}

// limitCard says what limits one variant, with the evidence and what each component used.
type limitCard struct {
	ID, Name, LimitedBy, Summary string
	Decided                      bool
	Capacity                     string
	Witnesses                    []witnessRow
	Agreement, Advice            string
	Components                   []componentRow
	Generator                    string
}

type witnessRow struct{ Name, Names, Evidence string }

// componentRow is what one component used.
type componentRow struct {
	Name, Share       string
	Limiting          bool
	Busy, BusyBar     string
	Throttled, ThrBar string
	Waited            string // for a core, though ready to run
	Memory, Trouble   string // trouble is what memory is short of; empty if of nothing
}

func newLimitCard(r *result.Result, i int) limitCard {
	v := &r.Variants[i]
	c := limitCard{
		ID: fmt.Sprintf("limit-%d", i+1), Name: v.Name, LimitedBy: limitedBy(v), Decided: v.Verdict.Decided(), Summary: v.Verdict.Summary,
		Agreement: agreement(&v.Verdict), Advice: v.Verdict.Advice,
	}
	if v.HasCapacity() {
		c.Capacity = capacityText(v)
	} else if format.Finite(v.Rate) && v.Rate > 0 {
		c.Capacity = format.Measured(v.Rate) + " " + r.RateUnit() + " offered"
	}
	for _, w := range v.Verdict.Witnesses {
		c.Witnesses = append(c.Witnesses, witnessRow{w.Name, named(w), w.Evidence})
	}
	for j := range v.Components {
		row := newComponentRow(&v.Components[j])
		row.Limiting = slices.Contains(v.Verdict.Limiting(), row.Name)
		c.Components = append(c.Components, row)
	}
	if v.Generator > 0 && format.Finite(v.Generator) {
		c.Generator = format.Measured(v.Generator) + " cores"
	}
	return c
}

func newComponentRow(c *verdict.Component) componentRow {
	row := componentRow{
		Name: c.Name, Share: shareText(c), Busy: format.Missing, BusyBar: barLength(0),
		Throttled: format.Percent(c.Throttled), ThrBar: barLength(c.Throttled), Waited: format.Missing, Memory: format.Missing,
	}
	if c.NoneSeen() {
		row.Throttled = format.Missing
	}
	if c.MemoryBytes > 0 {
		row.Memory = format.Bytes(c.MemoryBytes)
	}
	if c.LimitCPUs > 0 && format.Finite(c.LimitCPUs) {
		row.Busy, row.BusyBar = format.Percent(c.Busy), barLength(c.Busy)
	}
	if c.RunDelay > 0 && format.Finite(c.RunDelay) {
		row.Waited = format.Percent(c.Waited())
	}
	var trouble []string
	if c.OOMKills > 0 {
		trouble = append(trouble, "killed for memory: "+strconv.FormatUint(c.OOMKills, 10))
	}
	if c.MemoryStall > 0 && format.Finite(c.MemoryStall) {
		trouble = append(trouble, "waited for it "+format.Percent(c.MemoryStall))
	}
	if c.MemoryFails > 0 && format.Finite(c.MemoryFails) {
		trouble = append(trouble, "at its limit "+format.Measured(c.MemoryFails)+"/s")
	}
	row.Trouble = strings.Join(trouble, "; ")
	return row
}

// barLength is the length of a bar for a share of 1; what is no number has none.
func barLength(share float64) string {
	if !format.Finite(share) {
		return "0%"
	}
	return chart.Percent(min(max(share, 0), 1))
}
