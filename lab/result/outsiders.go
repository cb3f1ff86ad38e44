package result

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

const (
	// mostNamed bounds how many are named of what used Outside, and leastNamed the share of
	// it that each has.
	mostNamed, leastNamed = 3, 0.1
	// nearlyAll is the share from which on no more are named.
	nearlyAll = 0.8
)

// MostOutside names what used most of Outside: ", mostly stress (process 4711)", and ",
// partly …" where it is less than half; empty where that is not known. process says that a
// process may have used most of it, and not the kernel or another guest.
func (c *Conditions) MostOutside() (text string, process bool) {
	type part struct {
		what  string
		cores float64
		other bool // than a process
	}
	parts := []part{{"other guests of its host (stolen time)", c.Stolen, true}, {"interrupts", c.Interrupts, true}}
	for _, p := range c.Outsiders {
		what := fmt.Sprintf("%s (process %d)", p.Name, p.PID)
		if p.Kernel {
			what = p.Name + " (the kernel's)"
		}
		parts = append(parts, part{what, p.Cores, p.Kernel})
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.cores, a.cores) })
	var names []string
	sum := 0.0
	for _, p := range parts[:min(len(parts), mostNamed)] {
		if p.cores < leastNamed*c.Outside || sum >= nearlyAll*c.Outside {
			break
		}
		names, sum = append(names, p.what), sum+p.cores
	}
	switch {
	case len(names) == 0:
		return "", true
	case sum < c.Outside/2:
		return ", partly " + joinWords(names), true
	}
	return ", mostly " + joinWords(names), !parts[0].other
}

func joinWords(words []string) string {
	n := len(words) - 1
	if n == 0 {
		return words[0]
	}
	return strings.Join(words[:n], ", ") + " and " + words[n]
}
