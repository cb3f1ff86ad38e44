package report

import (
	"fmt"
	"strconv"
	"strings"

	"loadstone/lab/chart"
	"loadstone/lab/format"
	"loadstone/lab/result"
)

// The sizes of a perturbation chart, in pixels.
const (
	slotHeight = 54
	// maxSlots bounds the slots that are drawn, and with them the page. The
	// experiment itself ends after half a minute or so of slots of a second.
	maxSlots = 120
)

// perturbCharts are the perturbation experiments, one chart per variant on one
// common axis of elasticity.
type perturbCharts struct {
	Charts []perturbChart
	Level  string
}

// perturbChart is how throughput answered, and the slots that it is from.
type perturbChart struct {
	ID, Name, Trial, Cost string
	Elasticities, Slots   *chart.Chart // nil without
	Effects               []effectRow
	Rows                  []slotRow
}

// effectRow is one target and its elasticities.
type effectRow struct {
	Letter, Name, Reading string
	Throughput, P95       string // as texts, with their intervals
	Blocks                int
}

// slotRow is one slot in the chart's table.
type slotRow struct{ At, What, Factor, Throughput, P95 string }

func newPerturbCharts(r *result.Result) *perturbCharts {
	seen := chart.Extent{}
	seen.See(-0.5, 1.5)
	level, made := 0.0, false
	for i := range r.Variants {
		p := r.Variants[i].Perturbation
		if p == nil || len(p.Slots) == 0 {
			continue
		}
		made = true
		for _, e := range p.Effects {
			seen.See(min(max(e.Throughput.Low, -1.5), 2.5), min(max(e.Throughput.High, -1.5), 2.5))
			level = e.Throughput.Confidence
		}
	}
	if !made {
		return nil
	}
	scale, values := chart.Linear(seen, 5, false)
	charts := &perturbCharts{}
	if level > 0 && format.Finite(level) {
		charts.Level = format.Percent(level)
	}
	x := chart.Axis{Scale: scale, Ticks: scale.Ticks(values, format.Setting)}
	for i := range r.Variants {
		if p := r.Variants[i].Perturbation; p != nil && len(p.Slots) > 0 {
			c := newPerturbChart(fmt.Sprintf("perturb-%d", i+1), &r.Variants[i], x)
			c.Cost = perturbedCost(r, p)
			charts.Charts = append(charts.Charts, c)
		}
	}
	return charts
}

// perturbedCost is what the experiment took, in words.
func perturbedCost(r *result.Result, p *result.Perturbation) string {
	last := p.Slots[len(p.Slots)-1]
	text := fmt.Sprintf("%s over %s s of load", format.Plural(len(p.Slots), "slot"), format.Measured(last.At+last.Seconds))
	if cores := float64(r.Environment.Cores); p.CostCPU > 0 && format.Finite(p.CostCPU) && cores > 0 {
		text += fmt.Sprintf("; watching and perturbing took %s of the machine", format.Percent(p.CostCPU/cores))
	}
	return text
}

func newPerturbChart(id string, v *result.Variant, x chart.Axis) perturbChart {
	p := v.Perturbation
	c := perturbChart{ID: id, Name: v.Name, Trial: strconv.Itoa(p.Trial)}
	letters := map[string]string{}
	var lanes []chart.Lane
	var told []string
	for i, e := range p.Effects {
		row := newEffectRow(letter(i), e)
		letters[row.Name] = row.Letter
		c.Effects = append(c.Effects, row)
		class := "effect"
		if row.Reading == movesThroughput {
			class = "effect moves"
		}
		t := e.Throughput
		lanes = append(lanes, chart.Lane{
			Name: row.Letter + "  " + row.Name, Note: row.Reading, Height: 16, Y: chart.Axis{Scale: chart.Scale{High: 1}}, Bare: true,
			Points: []chart.Point{{Shape: "disc", Class: class, X: t.Value, Y: 0.5, Left: t.Low, Right: t.High}},
		})
		told = append(told, row.Name+": "+row.Throughput+", "+row.Reading)
	}
	if len(lanes) > 0 {
		c.Elasticities = &chart.Chart{
			ID: id, Title: "Elasticities of " + v.Name, Layout: chart.Lanes, X: x, Lanes: lanes,
			Desc:      "By how many per cent throughput changed for one per cent more. " + strings.Join(told, "; ") + ".",
			Verticals: []chart.Vertical{{Class: "base", At: 0}, {Class: "limit", At: 1}},
		}
	}
	c.addSlots(p, letters)
	return c
}

// movesThroughput is the reading of an elasticity whose interval is above 0.
const movesThroughput = "moves throughput"

func newEffectRow(letter string, e result.PerturbedEffect) effectRow {
	row := effectRow{
		Letter: letter, Name: strings.Join(e.Targets, " and "), Blocks: e.Blocks,
		Throughput: elasticityText(e.Throughput), P95: elasticityText(e.P95),
	}
	// What limits alone has 1, two that limit together share it: below a half
	// nothing does. The verdict's third method asks for more: see package verdict.
	switch {
	case !format.Finite(e.Throughput.Low) || !format.Finite(e.Throughput.High):
		row.Reading = "not known"
	case e.Throughput.Low > 0:
		row.Reading = movesThroughput
	case e.Throughput.High < 0.5:
		row.Reading = "does not matter"
	default:
		row.Reading = "no significant effect"
	}
	return row
}

func elasticityText(i result.Estimate) string {
	return fmt.Sprintf("%s (%s to %s)", format.At(i.Value, -2), format.At(i.Low, -2), format.At(i.High, -2))
}

// letter names the targets on the slots: a, b, c and so on.
func letter(i int) string { return string(rune('a' + i%26)) }

func (c *perturbChart) addSlots(p *result.Perturbation, letters map[string]string) {
	slots := p.Slots[:min(len(p.Slots), maxSlots)]
	last := slots[len(slots)-1]
	span := chart.Scale{Low: 0, High: max(last.At+last.Seconds, 1)}
	if !format.Finite(span.High) {
		return
	}
	var seen chart.Extent
	var steady []float64
	x := chart.Axis{Scale: span}
	lane := chart.Lane{Height: slotHeight}
	for _, s := range slots {
		seen.See(s.Throughput, 0)
		bar := chart.Bar{Class: "steady", From: s.At, To: s.At + 0.88*s.Seconds, High: s.Throughput}
		row := slotRow{At: format.At(s.At, -1), What: "nothing", Factor: format.Missing, Throughput: format.Measured(s.Throughput), P95: format.LatencyNumber(s.P95)}
		if name := strings.Join(s.Targets, " and "); name == "" {
			steady = append(steady, s.Throughput)
		} else {
			row.What, row.Factor = name, format.Setting(s.Factor)+"×"
			sign := "−"
			bar.Class = "less"
			if s.Factor > 1 {
				bar.Class, sign = "more", "+"
			}
			x.Ticks = append(x.Ticks, chart.Tick{Value: (bar.From + bar.To) / 2, Label: letters[name] + sign})
		}
		lane.Bars, c.Rows = append(lane.Bars, bar), append(c.Rows, row)
	}
	lane.Y.Scale = chart.Scale{High: max(seen.High, 1)}
	lane.Limits = []chart.Limit{{Class: "capline", Value: mean(steady)}}
	c.Slots = &chart.Chart{
		ID: c.ID + "-slots", Title: "Throughput of the slots of " + c.Name, Layout: chart.Slots, X: x, Lanes: []chart.Lane{lane},
		Desc: fmt.Sprintf("Throughput of each slot, up to %s req/s; %s req/s on average where nothing was changed.", format.Measured(seen.High), format.Measured(mean(steady))),
	}
}
