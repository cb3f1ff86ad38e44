// Package compare says what differs between two runs, or between the variants
// of one: capacity, latency at a rate that both were tried at, CPU per request
// and failures, each with the factor between them, its interval and an exact
// test; and what else differs, so that a change can be put down to its cause:
// the machine, the versions, the limits, the experiment file.
//
// Which differences are real is package compare's to say; this one decides what
// is compared with what. It reads no files: a run comes as its derived result.
//
// Two runs are compared as they were measured: what changed is what people look for first.
// If they begin with the same baseline they can be compared relative to it: the speed of
// the machine, which differs from day to day, cancels out. What changed in the baseline
// itself cancels out with it, so that the baseline is compared too, as it was measured.
package compare

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"loadstone/block/spelling"
	"loadstone/lab/result"
	"loadstone/lab/stats"
)

// Schema names the version of Difference's JSON form.
const Schema = "loadstone.difference/1"

// Config is how to compare.
type Config struct {
	// Relative divides by the baseline that both runs share: their first variant.
	Relative bool
	// Variants pairs variants that are called differently, the base's name by the
	// sample's; nothing else is compared then. Without any those of the same name are.
	Variants map[string]string
}

// Run is a run that takes part.
type Run struct {
	Name       string    `json:"name"` // of its directory
	Experiment string    `json:"experiment"`
	Started    time.Time `json:"started"`
	Version    string    `json:"version"` // Loadstone's
}

// Difference is what was found. Base and Sample are the same run where its own
// variants are compared.
type Difference struct {
	Schema string  `json:"schema"`
	Base   Run     `json:"base"`
	Sample Run     `json:"sample"`
	Tables []Table `json:"tables"`
	// Settings are what differs in the environment and in the variants' limits.
	Settings []Setting `json:"settings"`
	// Source has the lines in which the experiment files differ.
	Source   []Line   `json:"source"`
	Warnings []string `json:"warnings"`
}

// Table is a family of comparisons: they are corrected for their number together.
type Table struct {
	Title  string       `json:"title"`
	Design stats.Design `json:"design"`
	// Reference is the variant that all values are relative to, for
	// compare.Referenced.
	Reference string `json:"reference,omitempty"`
	// Judged tables are what users notice: capacity, response time under a load
	// as written, failures. Response time at the rate of a search is not: it is
	// taken near the knee, where a small loss of capacity doubles it.
	Judged bool  `json:"judged"`
	Rows   []Row `json:"rows"`
	// Notes are what the rows do not say, such as what could not be compared.
	Notes []string `json:"notes"`
}

// Row is one comparison.
type Row struct {
	Name   string       `json:"name"`
	Metric stats.Metric `json:"metric"`
	// Base and Sample are medians over trials as they were measured, in the
	// metric's unit, also where the comparison is relative.
	Base   stats.Interval `json:"base"`
	Sample stats.Interval `json:"sample"`
	// BaseBound and SampleBound say that it is only a lower bound.
	BaseBound   bool `json:"base_bound,omitempty"`
	SampleBound bool `json:"sample_bound,omitempty"`
	// Result is absent if there was nothing to compare; Note says why.
	Result *stats.Result `json:"result,omitempty"`
	// Adjusted is the p-value after the correction for the rows of the table.
	Adjusted float64      `json:"adjusted"`
	Change   stats.Change `json:"change"`
	Note     string       `json:"note,omitempty"`
}

// pair is two variants to compare: base and sample of the same run or not.
type pair struct {
	name         string
	base, sample *result.Variant
}

// ErrVariants marks runs in which nothing is known to belong together.
var ErrVariants = errors.New("pair the variants")

// Between compares two runs, variant by variant. It is an error if they have no
// variant in common, unless each has only one.
func Between(base, sample *result.Result, names [2]string, c Config) (*Difference, error) {
	d := &Difference{Schema: Schema, Base: runOf(base, names[0]), Sample: runOf(sample, names[1])}
	pairs, err := d.pairs(base, sample, c.Variants)
	if err != nil {
		return nil, err
	}
	d.warnOfParts(base, d.Base.Name)
	d.warnOfParts(sample, d.Sample.Name)
	d.Settings = settings(base, sample, pairs)
	d.Source = lineDifference(base.Source, sample.Source)
	d.warnAboutQuestion(base, sample)
	t := tabler{result: base, difference: d, design: stats.Separate}
	if first := base.Variants[0].Name; c.Relative && len(c.Variants) == 0 && len(pairs) > 1 && first == sample.Variants[0].Name {
		t.baseline, t.design = &pairs[0], stats.Referenced
		pairs = pairs[1:]
	}
	if err := t.all(pairs, sameRates(base, sample)); err != nil {
		return nil, err
	}
	if !c.Relative {
		d.warnOfMachine()
	}
	d.warnOfSpeed(&base.Environment, &sample.Environment)
	return d.complete(), nil
}

// pairs are the variants to compare: those that by pairs, of the same name without it, or
// the only one of each run.
func (d *Difference) pairs(base, sample *result.Result, by map[string]string) ([]pair, error) {
	if len(by) > 0 {
		return d.paired(base, sample, by)
	}
	a, b := &base.Variants[0], &sample.Variants[0]
	if len(base.Variants) == 1 && len(sample.Variants) == 1 && a.Name != b.Name {
		d.warn(fmt.Sprintf("the variants have different names, %s in %s and %s in %s; each is the only one of its run, so they are compared",
			a.Name, d.Base.Name, b.Name, d.Sample.Name))
		return []pair{newPair(a, b)}, nil
	}
	pairs := d.common(base, sample)
	if len(pairs) == 0 {
		return nil, fmt.Errorf("%w: %s and %s have none in common: one has %s, the other %s; say which belong together with --variants, such as --variants %s=%s",
			ErrVariants, d.Base.Name, d.Sample.Name, strings.Join(variantNames(base), ", "), strings.Join(variantNames(sample), ", "), a.Name, b.Name)
	}
	return pairs, nil
}

// paired are the variants that by pairs, in the order of the first run.
func (d *Difference) paired(base, sample *result.Result, by map[string]string) ([]pair, error) {
	for a, b := range by {
		for _, one := range []struct {
			name, run string
			of        *result.Result
		}{{a, d.Base.Name, base}, {b, d.Sample.Name, sample}} {
			if all := variantNames(one.of); !slices.Contains(all, one.name) {
				return nil, fmt.Errorf("%w: %s has no variant %s; %s", ErrVariants, one.run, spelling.Quote(one.name), spelling.ChooseName(one.name, all))
			}
		}
	}
	var out []pair
	for i := range base.Variants {
		if name, ok := by[base.Variants[i].Name]; ok {
			out = append(out, newPair(&base.Variants[i], &sample.Variants[slices.Index(variantNames(sample), name)]))
		}
	}
	return out, nil
}

// newPair is two variants that need not be called the same.
func newPair(base, sample *result.Variant) pair {
	name := base.Name
	if sample.Name != name {
		name += " → " + sample.Name
	}
	return pair{name: name, base: base, sample: sample}
}

// warnOfSpeed says that the machine was slower in one of two runs, if both know how fast it
// was: the medians over their trials of what the same work took, compiled alike.
func (d *Difference) warnOfSpeed(base, sample *result.Environment) {
	a, b := base.Speed, sample.Speed
	if a == nil || b == nil || a.Work != b.Work || base.Go != sample.Go {
		return
	}
	say := func(run, more string) {
		if more != "" {
			d.warn("the machine was slower in " + run + ": " + more + ", and requests may have taken more, too: a difference need not be the system's")
		}
	}
	say("B", b.Slower(a))
	say("A", a.Slower(b))
}

// warnOfMachine says that all variants changed alike, if they did: that is more often the
// machine than the variants.
func (d *Difference) warnOfMachine() {
	for i := range d.Tables {
		t := &d.Tables[i]
		if t.Title != capacityTitle || len(t.Rows) < 2 {
			continue
		}
		first := t.Rows[0].Change
		alike := !slices.ContainsFunc(t.Rows, func(r Row) bool { return r.Change != first })
		if alike && first != stats.Unclear {
			d.warn("all variants are " + string(first) + ": that may be the machine, and --relative compares each with the first variant of its own run")
		}
	}
}

// Within compares all pairs of a run's variants. It is an error if there is
// only one.
func Within(r *result.Result, name string) (*Difference, error) {
	if len(r.Variants) < 2 {
		return nil, fmt.Errorf("run %s has one variant, %s; name a second run to compare it with", name, strings.Join(variantNames(r), ""))
	}
	run := runOf(r, name)
	d := &Difference{Schema: Schema, Base: run, Sample: run}
	d.warnOfParts(r, name)
	var pairs []pair
	for i := range r.Variants {
		for j := range r.Variants[:i] {
			base, sample := &r.Variants[j], &r.Variants[i]
			pairs = append(pairs, newPair(base, sample))
		}
	}
	t := tabler{result: r, difference: d, design: stats.Interleaved}
	if err := t.all(pairs, true); err != nil {
		return nil, err
	}
	return d.complete(), nil
}

// warnOfParts says that a run is not whole.
func (d *Difference) warnOfParts(r *result.Result, name string) {
	if r.Partial != "" {
		d.Warnings = append(d.Warnings, fmt.Sprintf("%s is partial: %s", name, r.Partial))
	}
}

func runOf(r *result.Result, name string) Run {
	return Run{Name: name, Experiment: r.Experiment, Started: r.Started, Version: r.Environment.Version}
}

// common are the variants that both runs have, in the order of the first. Those
// that one lacks are named in a warning.
func (d *Difference) common(base, sample *result.Result) []pair {
	var out []pair
	only := [2][]string{}
	for i := range base.Variants {
		b := &base.Variants[i]
		j := slices.Index(variantNames(sample), b.Name)
		if j < 0 {
			only[0] = append(only[0], b.Name)
			continue
		}
		out = append(out, pair{name: b.Name, base: b, sample: &sample.Variants[j]})
	}
	for _, name := range variantNames(sample) {
		if !slices.Contains(variantNames(base), name) {
			only[1] = append(only[1], name)
		}
	}
	for i, name := range []string{d.Base.Name, d.Sample.Name} {
		if len(only[i]) > 0 {
			d.Warnings = append(d.Warnings, fmt.Sprintf("only %s has %s: not compared", name, strings.Join(only[i], ", ")))
		}
	}
	return out
}

func variantNames(r *result.Result) []string {
	out := make([]string, len(r.Variants))
	for i, v := range r.Variants {
		out[i] = v.Name
	}
	return out
}

// warnAboutQuestion says where the two runs do not answer the same question.
func (d *Difference) warnAboutQuestion(base, sample *result.Result) {
	if base.Experiment != sample.Experiment {
		d.Warnings = append(d.Warnings, fmt.Sprintf("the runs are of different experiments, %s and %s: variants of the same name may not be the same", base.Experiment, sample.Experiment))
	}
	if !sameRates(base, sample) {
		d.Warnings = append(d.Warnings, fmt.Sprintf("one run measures %s in %s, the other %s in %s: rates and CPU per request are not compared",
			base.Measure, base.RateUnit(), sample.Measure, sample.RateUnit()))
		return
	}
	if a, b := objectives(base), objectives(sample); !slices.Equal(a, b) {
		d.Warnings = append(d.Warnings, fmt.Sprintf("the objectives differ, %s and %s: a capacity under one says nothing of the other",
			strings.Join(a, ", "), strings.Join(b, ", ")))
	}
}

// sameRates says whether rates of the two runs mean the same.
func sameRates(base, sample *result.Result) bool {
	return base.Measure == sample.Measure && base.RateUnit() == sample.RateUnit()
}

func objectives(r *result.Result) []string {
	var out []string
	for _, o := range r.SLO {
		out = append(out, o.Metric+": "+o.Threshold)
	}
	return out
}

// complete makes every list one that can be iterated over in JSON.
func (d *Difference) complete() *Difference {
	for i := range d.Tables {
		d.Tables[i].Rows = append([]Row{}, d.Tables[i].Rows...)
		d.Tables[i].Notes = append([]string{}, d.Tables[i].Notes...)
	}
	d.Tables = append([]Table{}, d.Tables...)
	d.Settings = append([]Setting{}, d.Settings...)
	d.Source = append([]Line{}, d.Source...)
	d.Warnings = append([]string{}, d.Warnings...)
	return d
}

// Worse are the rows of judged tables that are worse by a share (0.05 is 5 %) or
// more: a difference that is real, and of that size. A variant that held a rate
// and holds none any more is among them.
func (d *Difference) Worse(share float64) []Row {
	var out []Row
	for _, t := range d.Tables {
		for _, r := range t.Rows {
			if t.Judged && r.Lost(share) {
				out = append(out, r)
			}
		}
	}
	return out
}

// loss is by which share a row's sample is worse than its base.
func (r *Row) loss() float64 {
	switch {
	case r.Result == nil:
		return math.Inf(1)
	case r.Metric.HigherIsBetter:
		return 1 - r.Result.Ratio.Value
	default:
		return r.Result.Ratio.Value - 1
	}
}

// Undecidable are the rows of judged tables that no outcome could have decided:
// of too few trials, or without anything to compare.
func (d *Difference) Undecidable() []Row {
	var out []Row
	for _, t := range d.Tables {
		for _, r := range t.Rows {
			if t.Judged && r.Change != stats.Worse && (r.Result == nil || r.Result.Outcome == stats.TooFew) {
				out = append(out, r)
			}
		}
	}
	return out
}

// Baseline is the comparison of a shared baseline as it was measured; nil where
// nothing is relative to one.
func (d *Difference) Baseline() *Row {
	for i := range d.Tables {
		if t := &d.Tables[i]; t.Title == baselineTitle && len(t.Rows) == 1 {
			return &t.Rows[0]
		}
	}
	return nil
}

// Lost says whether a row is worse by a share or more.
func (r *Row) Lost(share float64) bool { return r.Change == stats.Worse && r.loss() >= share }
