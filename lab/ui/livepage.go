package ui

import (
	"bytes"
	"fmt"

	"loadstone/lab/chart"
	"loadstone/lab/format"
)

// livePage is what the page of a run under way shows, in parts that are sent
// anew when they change. A part is the inside of the element of its name.
type livePage struct {
	Status  string // one sentence; it changes with the trial, not with the second
	Trouble string
	Trials  []trialRow
	Load    bool // the load is driven as written, so rates are not capacities
	Pieces  []pieceRow
	Skipped int
	Lanes   []*chart.Chart
	CPU     []*chart.Chart
	Seconds string // that the charts go back
	Variant string
}

// toCome is the state of a trial that has not begun.
const toCome = "to come"

type trialRow struct {
	Index, Round         int
	Variant, State, Rate string
	P95, Tries, Seconds  string
	Current              bool
	Warnings             int
}

type pieceRow struct {
	Number                   int
	Name, Rate, P95, Seconds string
	Failed, Dropped          uint64
	Current, Warming         bool
}

// page is the run as it stands.
func (l *live) page() *livePage {
	p := &livePage{Load: l.measure == "load", Status: l.status(), Trouble: l.trouble}
	for _, t := range l.manifest.Trials {
		row := trialRow{Index: t.Index, Round: t.Round, Variant: t.Variant, State: toCome, Rate: "–", P95: "–", Tries: "–", Seconds: "–"}
		if e := l.ended[t.Index]; e != nil {
			row.State, row.Rate, row.P95, row.Warnings = "done", e.rate(), format.Latency(e.P95), e.Warnings
			row.Tries, row.Seconds = fmt.Sprint(e.Tries), fmt.Sprintf("%.0f s", e.Seconds)
		} else if l.current != nil && l.current.Index == t.Index {
			row.State, row.Current = "under way", true
		}
		p.Trials = append(p.Trials, row)
	}
	if c := l.current; c != nil {
		p.Variant, p.Skipped = c.Variant, c.skipped
		for i, pc := range c.pieces {
			p.Pieces = append(p.Pieces, pieceRow{
				Number: pc.Number, Name: l.pieceName(pc), Rate: format.Measured(pc.rate()), P95: format.Latency(pc.p95()), Seconds: fmt.Sprintf("%.1f s", pc.Seconds),
				Failed: pc.Failed, Dropped: pc.Dropped, Current: i == len(c.pieces)-1, Warming: pc.Warming,
			})
		}
		p.Lanes, p.CPU = c.loadLanes(), c.cpuLanes(l.limits[c.Variant])
		from, to := c.span()
		p.Seconds = fmt.Sprintf("%.0f s", to.Sub(from).Seconds())
	}
	return p
}

func (e *ended) rate() string {
	switch {
	case e.Rate <= 0:
		return "none held"
	case e.LowerBound:
		return "≥" + format.Measured(e.Rate)
	default:
		return format.Measured(e.Rate)
	}
}

// pieceName tells a piece of load by its number. What it is for is on disk when
// the trial has ended; but a search begins with its sweep.
func (l *live) pieceName(p *piece) string {
	switch {
	case l.measure == "load":
		return "as written"
	case l.measure == "capacity" && p.Number == 1:
		return "1, the sweep"
	default:
		return fmt.Sprint(p.Number)
	}
}

func (l *live) status() string {
	total := len(l.manifest.Trials)
	if l.current == nil {
		return fmt.Sprintf("All %d trials have ended; the report is being derived.", total)
	}
	text := fmt.Sprintf("Trial %d of %d is under way: %s.", l.current.Index, total, l.current.Variant)
	switch n := len(l.current.pieces); {
	case n == 0:
		text += " The system is being started, or nothing was measured yet."
	case l.measure != "load":
		text += fmt.Sprintf(" Load number %d is being offered.", l.current.skipped+n)
	}
	if d, ok := l.remaining(); ok {
		text += " About " + format.Approximate(d) + " to go."
	}
	return text
}

// partNames are the parts of a live page, by the names of their elements and
// templates.
var partNames = []string{"status", "trials", "pieces", "load", "cpu"}

// parts renders all of them.
func (h *handler) parts(p *livePage) (map[string]string, error) {
	out := make(map[string]string, len(partNames))
	for _, name := range partNames {
		var b bytes.Buffer
		if err := h.pages.ExecuteTemplate(&b, "part-"+name, p); err != nil {
			return nil, fmt.Errorf("make the part %s of the page: %w", name, err)
		}
		out[name] = b.String()
	}
	return out, nil
}
