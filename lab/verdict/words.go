package verdict

import (
	"fmt"
	"math"
	"strings"

	"loadstone/lab/format"
)

func share(c Component) string {
	if c.Instances == 1 {
		return fmt.Sprintf("its %g CPU", c.LimitCPUs)
	}
	return fmt.Sprintf("its %d × %g CPU", c.Instances, c.LimitCPUs)
}

func allow(c Component) string {
	if c.Instances == 1 {
		return "allows"
	}
	return "allow"
}

// visited says of how many visits a demand is, where that is not one.
func (c Component) visited() string {
	if c.Visits <= 0 || math.Abs(c.Visits-1) < 0.05 {
		return ""
	}
	return fmt.Sprintf(" (%.2g visits of %s)", c.Visits, format.Demand(c.DemandMS/c.Visits))
}

// one is what rates count.
func (in Input) one() string {
	if in.Several {
		return "iteration"
	}
	return "request"
}

// rate prints a rate with three significant digits and thousands set apart.
func (in Input) rate(r float64) string {
	unit := " req/s"
	if in.Several {
		unit = " iterations/s"
	}
	return format.Rounded(r) + unit
}

// list joins what is said of several: "a, b and c".
func list(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
