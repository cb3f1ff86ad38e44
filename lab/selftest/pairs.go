package selftest

import (
	"fmt"

	"loadstone/lab/result"
	"loadstone/lab/stats"
)

// foundShare is how often a difference of a tenth has to be found at least.
const foundShare = 0.8

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
	for i := range res.Variants {
		if c := res.Variants[i].Conditions; c != nil {
			r.Outside = max(r.Outside, c.Outside)
		}
	}
	c := res.Comparison("again")
	switch {
	case c == nil || c.TooFew() || !c.HasRange():
		r.Error = fmt.Sprintf("the two variants were not compared; the run has %d variants", len(res.Variants))
		return
	case !c.Significant: // which it could not be then
		for i := range res.Variants {
			if v := &res.Variants[i]; v.IsLowerBound() {
				r.Error = fmt.Sprintf("of %s only a lower bound is known: %s", v.Name, v.Verdict.Summary)
				return
			}
		}
	}
	r.Compared = c
	r.Verdict = Finding{Text: fmt.Sprintf("×%.3f [%.3f, %.3f]", c.Ratio, c.Low, c.High), Right: r.Truth.tells(c)}
	r.Misleads = !r.Verdict.Right && c.Significant
	said := "no difference was shown"
	if c.Significant {
		said = "they are called different"
	}
	r.Summary = fmt.Sprintf("again does %s of planted, and %s.", r.Verdict.Text, said)
}

// PairScore is what came of the pairs of one kind.
type PairScore struct {
	Name string `json:"name"`
	// Compared pairs count. NotMeasured ones failed, or only had lower bounds.
	Compared    int `json:"compared"`
	NotMeasured int `json:"not_measured"`
	// Different were called different, Right of all were told as they are, and Covered had the
	// true factor in the interval.
	Different int  `json:"different"`
	Right     int  `json:"right"`
	Covered   int  `json:"covered"`
	Passed    bool `json:"passed"`
}

// mostNotMeasured is the share of pairs that may have no comparison: what disturbs the machine
// may be why, and those that are left would only tell of quiet ones.
const mostNotMeasured = 1.0 / 6

// pairs are the scores of the pairs, by kind; nothing of kinds that were not measured.
func (s *Score) pairs() (scores []PairScore) {
	for _, p := range Pairs() {
		k := PairScore{Name: p.Name}
		for i := range s.Rows {
			switch r := &s.Rows[i]; {
			case r.Name != p.Name:
			case r.Compared == nil:
				k.NotMeasured++
			default:
				k.add(r)
			}
		}
		if k.Compared+k.NotMeasured > 0 {
			k.Passed = k.passes(p.Truth.Apart)
			scores = append(scores, k)
		}
	}
	return scores
}

func (k *PairScore) add(r *Row) {
	k.Compared++
	if r.Compared.Significant {
		k.Different++
	}
	if r.Right() {
		k.Right++
	}
	if r.Compared.Low <= r.Truth.Apart && r.Truth.Apart <= r.Compared.High {
		k.Covered++
	}
}

// passes says whether the pairs leave it open that equals are called different as rarely as is
// said, or that a difference is found as often as it has to be: few pairs show little.
func (k *PairScore) passes(apart float64) bool {
	if float64(k.NotMeasured) > mostNotMeasured*float64(k.Compared+k.NotMeasured) {
		return false
	}
	if apart == 1 {
		return stats.Share(k.Different, k.Compared).Low <= stats.Alpha
	}
	return stats.Share(k.Right, k.Compared).High >= foundShare
}

// text is a line for people.
func (k *PairScore) text() string {
	word, percent := "passed", ""
	if !k.Passed {
		word = "FAILED"
	}
	if k.Compared > 0 {
		share := stats.Share(k.Different, k.Compared)
		percent = fmt.Sprintf(", %.0f %% [%.0f, %.0f]", 100*share.Value, 100*share.Low, 100*share.High)
	}
	return fmt.Sprintf("%s: %s called different in %d of %d%s; %d intervals hold the truth; %d could not be measured",
		word, k.Name, k.Different, k.Compared, percent, k.Covered, k.NotMeasured)
}
