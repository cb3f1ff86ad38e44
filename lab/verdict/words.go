package verdict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"loadstone/lab/format"
)

func share(c Component) string {
	if c.Unenforced {
		return fmt.Sprintf("the machine's %g cores", c.LimitCPUs)
	}
	text := fmt.Sprintf("its %d × %g CPU", c.Instances, c.LimitCPUs)
	switch {
	case c.Unseen > 0:
		text = fmt.Sprintf("the %g CPU of each of its instances", c.LimitCPUs)
	case c.Instances == 1:
		text = fmt.Sprintf("its %g CPU", c.LimitCPUs)
	}
	if c.Stranded > 0 {
		text += fmt.Sprintf(", of which it could use %.0f %%,", 100*(1-c.Stranded))
	}
	return text
}

func allow(c Component) string {
	if c.Instances == 1 && !c.Unenforced {
		return "allows"
	}
	return "allow"
}

// visited says of how many visits a demand is, where that is not one, or that it is of a part of the component.
func (c Component) visited() string {
	if c.Unseen > 0 {
		return " as far as it was seen"
	}
	if c.Visits <= 0 || math.Abs(c.Visits-1) < 0.05 {
		return ""
	}
	return fmt.Sprintf(" (%.2g visits of %s)", c.Visits, format.Demand(c.DemandMS/c.Visits))
}

// workMuch is the share of a component's CPU time from which on a kind of work is worth
// a word.
const workMuch = 0.05

// spent says, behind a demand, what most of it goes into, as far as the component counts
// that: ", 41 % of it serializing and 12 % compressing". It is empty if it does not.
func (c Component) spent() string {
	work := slices.DeleteFunc(slices.Clone(c.Work), func(w Work) bool { return w.DemandMS < workMuch*c.DemandMS })
	slices.SortStableFunc(work, func(a, b Work) int { return cmp.Compare(b.DemandMS, a.DemandMS) })
	var words []string
	for i, w := range work {
		of := ""
		if i == 0 {
			of = "of it "
		}
		words = append(words, fmt.Sprintf("%.0f %% %s%s", 100*w.DemandMS/c.DemandMS, of, w.Name))
	}
	if len(words) == 0 {
		return ""
	}
	return ", " + list(words)
}

// one is what rates count.
func (in Input) one() string { return format.One(in.Unit) }

// rate prints a rate with three significant digits and thousands set apart.
func (in Input) rate(r float64) string { return format.Rounded(r) + " " + cmp.Or(in.Unit, "req/s") }

// unseen are the components of which not all was seen.
func (in Input) unseen() (names []string) {
	for _, c := range in.Components {
		switch {
		case c.NoneSeen():
			names = append(names, c.Name)
		case c.Unseen > 0:
			names = append(names, fmt.Sprintf("%d of %d instances of %s", c.Unseen, c.Instances, c.Name))
		}
	}
	return names
}

// none begins a sentence on all components, as far as they were seen.
func (in Input) none() string {
	if len(in.unseen()) > 0 {
		return "of the components that were seen, none "
	}
	return "no component "
}

// butUnseen says, behind a sentence on all components, of which of them it says nothing.
func (in Input) butUnseen() string {
	if names := in.unseen(); len(names) > 0 {
		return "; what " + list(names) + " used was not seen"
	}
	return ""
}

// list joins what is said of several: "a, b and c".
func list(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
