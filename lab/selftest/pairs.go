package selftest

import (
	"fmt"

	"loadstone/lab/result"
	"loadstone/lab/stats"
)

// The shares of the pairs that have to be told right: of a difference of a tenth, where six
// trials find it, and of everything else that is planted, in twelfths and in fifths.
const (
	foundOf5  = 4
	rightOf12 = 11
)

// pairTrials is how often each variant of a pair is measured: the fewest of which the
// comparison can call two variants different.
const pairTrials = 6

// Pairs are systems of which two variants are measured and compared: the same one twice (an
// A/A test), and one that has a tenth more of the CPU that limits it. They are measured when
// somebody asks for them by name: each takes three minutes.
func Pairs() []Planted {
	return []Planted{
		{Name: "same", What: "one variant twice", Truth: Truth{Apart: 1}, build: pairOf(1)},
		{Name: "tenth", What: "two variants, one with 10 % more CPU", Truth: Truth{Apart: 1.1}, build: pairOf(1.1)},
	}
}

// pairOf is a chain that is measured again with so many times the CPU of what limits it.
func pairOf(apart float64) func(*draw) project {
	return func(d *draw) project {
		limit := []string{"front", "middle", "store"}[d.whole(0, 2)]
		p := chain(limit)(d)
		p.limit, p.apart = limit, apart
		return p
	}
}

// variants are the experiment's.
func (p project) variants() string {
	if p.apart == 0 {
		return "{planted: {}}"
	}
	more := ""
	for _, s := range p.services {
		if s.name == p.limit && p.apart != 1 {
			more = fmt.Sprintf(`services: {%s: {deploy: {resources: {limits: {cpus: "%.4g"}}}}}`, s.name, s.cpus*p.apart)
		}
	}
	return fmt.Sprintf("{planted: {}, again: {%s}}", more)
}

// tells says whether a comparison is right: it calls the variants different where they are,
// and says which of them does more.
func (t Truth) tells(c *result.Comparison) bool {
	if t.Apart == 1 {
		return !c.Significant
	}
	return c.Significant && (c.Ratio > 1) == (t.Apart > 1)
}

// compare fills in the row of a pair. What is called different though it is not, or the
// other way round, misleads; what is there and not found does not.
func (r *Row) compare(res *result.Result) {
	c := res.Comparison("again")
	if c == nil || c.TooFew() {
		r.Error = fmt.Sprintf("the two variants were not compared; the run has %d variants", len(res.Variants))
		return
	}
	for i := range res.Variants {
		if v := &res.Variants[i]; v.IsLowerBound() { // which nothing is different from
			r.Error = fmt.Sprintf("of %s only a lower bound is known: %s", v.Name, v.Verdict.Summary)
			return
		}
	}
	r.Verdict = Finding{Text: fmt.Sprintf("×%.3f [%.3f, %.3f]", c.Ratio, c.Low, c.High), Right: r.Truth.tells(c)}
	r.Different = c.Significant
	r.Misleads = !r.Verdict.Right && c.Significant
	r.silent = !c.Significant
	r.Summary = "again does " + r.Verdict.Text + " of planted, and no difference was shown."
	if c.Significant {
		r.Summary = "again does " + r.Verdict.Text + " of planted, and they are called different."
	}
}

// differences says for each kind of pair how many were called different; nothing if there
// are none.
func (s *Score) differences() (lines []string) {
	for _, p := range Pairs() {
		n, different := 0, 0
		for i := range s.Rows {
			if r := &s.Rows[i]; r.Name == p.Name && r.Error == "" {
				n++
				if r.Different {
					different++
				}
			}
		}
		if n > 0 {
			share := stats.Share(different, n)
			lines = append(lines, fmt.Sprintf("%s: called different in %d of %d, %.0f %% [%.0f, %.0f]", p.Name, different, n, 100*share.Value, 100*share.Low, 100*share.High))
		}
	}
	return lines
}
