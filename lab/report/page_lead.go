package report

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"loadstone/lab/archive"
	"loadstone/lab/format"
	"loadstone/lab/result"
)

// leadCell is one of the few things that somebody who reads one screen should
// take away.
type leadCell struct {
	Name, Value, Note string
	Weak              bool // not settled
	Link              string
}

// newLead is about the variant that the answer names: its capacity, what limits
// it and what to change first; and how far all of it can be believed.
func newLead(r *result.Result, checks []check) []leadCell {
	var cells []leadCell
	if v := leader(r); v != nil {
		if v.HasCapacity() {
			cells = append(cells, capacityCell(v))
		}
		cells = append(cells, verdictCell(v))
		if v.Verdict.Advice != "" {
			cells = append(cells, leadCell{Name: "What to change first", Value: v.Verdict.Advice})
		}
	}
	if len(checks) > 0 {
		cells = append(cells, believeCell(checks))
	}
	return cells
}

// leader is the variant of the highest capacity; of a load as written the only
// one, because nothing else singles one out.
func leader(r *result.Result) *result.Variant {
	var best *result.Variant
	for i := range r.Variants {
		if v := &r.Variants[i]; v.HasCapacity() && (best == nil || v.Capacity.Value > best.Capacity.Value) {
			best = v
		}
	}
	if best == nil && len(r.Variants) == 1 {
		best = &r.Variants[0]
	}
	return best
}

func capacityCell(v *result.Variant) leadCell {
	c := leadCell{Name: "Capacity of " + v.Name, Value: capacityText(v), Weak: v.IsLowerBound()}
	if v.HasInterval() {
		c.Note = fmt.Sprintf("%s at %s, over %s", v.Capacity.InWords(), format.Percent(v.Capacity.Confidence), format.Plural(v.Trials, "trial"))
		return c
	}
	c.Note, c.Weak = format.Plural(v.Trials, "trial")+", no interval", true
	return c
}

func verdictCell(v *result.Variant) leadCell {
	c := leadCell{Name: "What limits " + v.Name, Value: limitedBy(v), Link: "limits", Weak: !v.Verdict.Decided()}
	if c.Note = agreement(&v.Verdict); c.Note != "" && len(v.Verdict.Dissent) > 0 {
		c.Note += "; contradicted by " + joinNames(v.Verdict.Dissent)
	}
	return c
}

func believeCell(checks []check) leadCell {
	var doubts []string
	for _, c := range checks {
		if !c.Good {
			doubts = append(doubts, strings.ToLower(c.Name))
		}
	}
	c := leadCell{Name: "Can it be believed?", Link: "validity", Weak: len(doubts) > 0}
	c.Value = fmt.Sprintf("%d of %s good", len(checks)-len(doubts), format.Plural(len(checks), "check"))
	if len(doubts) > 0 {
		c.Note = "look at: " + joinNames(doubts)
	}
	return c
}

// rawTrial is one trial with links to its files, which lie beside the page.
type rawTrial struct {
	Trial, Variant, Round, Capacity string
	Dir                             string // relative; empty if it cannot be linked
}

// linkable are the names of variants that become part of a link as they stand.
var linkable = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// newRawTrials lists the trials in the order in which they ran.
func newRawTrials(r *result.Result) []rawTrial {
	type place struct {
		trial int
		row   rawTrial
	}
	var places []place
	for i := range r.Variants {
		v := &r.Variants[i]
		for _, f := range v.Figures {
			row := rawTrial{Trial: strconv.Itoa(f.Trial), Variant: v.Name, Round: strconv.Itoa(f.Round), Capacity: format.Missing}
			if f.Capacity > 0 && format.Finite(f.Capacity) {
				row.Capacity = format.Measured(f.Capacity)
				if f.LowerBound {
					row.Capacity = "≥ " + row.Capacity
				}
			}
			if f.Trial > 0 && linkable.MatchString(v.Name) {
				var here archive.Run // whose path is empty: relative to the run's directory
				row.Dir = here.TrialDir(archive.Planned{Index: f.Trial, Variant: v.Name})
			}
			places = append(places, place{f.Trial, row})
		}
	}
	slices.SortStableFunc(places, func(a, b place) int { return a.trial - b.trial })
	rows := make([]rawTrial, len(places))
	for i, p := range places {
		rows[i] = p.row
	}
	return rows
}
