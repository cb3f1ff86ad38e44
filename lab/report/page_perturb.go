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
	effectRow  = 34
	slotHeight = 54
	// maxSlots bounds the slots that are drawn, and with them the page. The
	// experiment itself ends after half a minute or so of slots of a second.
	maxSlots = 120
)

// perturbCharts are the perturbation experiments, one chart per variant on one
// common axis of elasticity.
type perturbCharts struct {
	Charts    []perturbChart
	Ticks     []tick
	Zero, One string // their places
	Level     string
}

// perturbChart is how throughput answered, and the slots that it is from.
type perturbChart struct {
	ID, Name, Desc, SlotDesc string
	Trial, Cost              string
	Height                   int // of all effects
	Effects                  []effectMark
	Slots                    []slotMark
	Base                     string // the y of the unperturbed mean
	Rows                     []slotRow
}

// effectMark is one target: a mark at its elasticity with whiskers.
type effectMark struct {
	Letter, Name       string
	Y, Label           int
	At, Low, High      string
	Reading            string
	Throughput, P95    string // as texts, with their intervals
	Blocks             int
	Limiting, Harmless bool
}

// slotMark is one slot: a bar as high as its throughput.
type slotMark struct {
	X, Width, Y, Height string
	Mid                 string
	Kind                string // steady, more or less
	Letter, Sign        string
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
	charts := &perturbCharts{Zero: scale.Percent(0), One: scale.Percent(1)}
	if level > 0 && format.Finite(level) {
		charts.Level = format.Percent(level)
	}
	for _, v := range values {
		charts.Ticks = append(charts.Ticks, tick{scale.Percent(v), format.Setting(v)})
	}
	for i := range r.Variants {
		if p := r.Variants[i].Perturbation; p != nil && len(p.Slots) > 0 {
			c := newPerturbChart(&r.Variants[i], scale)
			c.ID = fmt.Sprintf("perturb-%d", i+1)
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

func newPerturbChart(v *result.Variant, scale chart.Scale) perturbChart {
	p := v.Perturbation
	c := perturbChart{Name: v.Name, Trial: strconv.Itoa(p.Trial), Height: len(p.Effects) * effectRow}
	letters := map[string]string{}
	var told []string
	for i, e := range p.Effects {
		m := newEffectMark(e, scale)
		m.Letter = letter(i)
		m.Y, m.Label = i*effectRow+24, i*effectRow+12
		letters[m.Name] = m.Letter
		c.Effects = append(c.Effects, m)
		told = append(told, m.Name+": "+m.Throughput+", "+m.Reading)
	}
	c.Desc = "By how many per cent throughput changed for one per cent more. " + strings.Join(told, "; ") + "."
	c.addSlots(p, letters)
	return c
}

func newEffectMark(e result.PerturbedEffect, scale chart.Scale) effectMark {
	m := effectMark{
		Name: strings.Join(e.Targets, " and "), Blocks: e.Blocks,
		At: scale.Percent(e.Throughput.Value), Low: scale.Percent(e.Throughput.Low), High: scale.Percent(e.Throughput.High),
		Throughput: elasticityText(e.Throughput), P95: elasticityText(e.P95),
	}
	// What limits alone has 1, two that limit together share it: below a half
	// nothing does. The verdict's third witness asks for more: see package verdict.
	switch {
	case !format.Finite(e.Throughput.Low) || !format.Finite(e.Throughput.High):
		m.Reading = "not known"
	case e.Throughput.Low > 0:
		m.Reading, m.Limiting = "moves throughput", true
	case e.Throughput.High < 0.5:
		m.Reading, m.Harmless = "does not matter", true
	default:
		m.Reading = "not told apart from nothing"
	}
	return m
}

func elasticityText(i result.Interval) string {
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
	for _, s := range slots {
		seen.See(s.Throughput, 0)
		if len(s.Targets) == 0 {
			steady = append(steady, s.Throughput)
		}
	}
	high := chart.Scale{Low: 0, High: max(seen.High, 1)}
	up := func(v float64) string { return chart.Number((1-high.At(v))*slotHeight, 1) }
	c.Base = up(mean(steady))
	for _, s := range slots {
		name := strings.Join(s.Targets, " and ")
		from, to := span.At(s.At), span.At(s.At+s.Seconds)
		m := slotMark{X: chart.Percent(from), Width: chart.Percent(max(to-from, 0) * 0.88), Mid: chart.Percent((from + to*0.88 + from*0.12) / 2),
			Y: up(s.Throughput), Height: chart.Number(high.At(s.Throughput)*slotHeight, 1), Kind: "steady", Letter: letters[name]}
		row := slotRow{At: format.At(s.At, -1), What: "nothing", Factor: format.Missing, Throughput: format.Measured(s.Throughput), P95: format.LatencyNumber(s.P95)}
		if name != "" {
			row.What, row.Factor = name, format.Setting(s.Factor)+"×"
			m.Kind, m.Sign = "less", "−"
			if s.Factor > 1 {
				m.Kind, m.Sign = "more", "+"
			}
		}
		c.Slots, c.Rows = append(c.Slots, m), append(c.Rows, row)
	}
	c.SlotDesc = fmt.Sprintf("Throughput of each slot, up to %s req/s; %s req/s on average where nothing was changed.", format.Measured(seen.High), format.Measured(mean(steady)))
}
