// Package experiment reads the experiment file: which system, which variants
// of it, under which load, against which objective (SLO), measured how often.
//
// The file is strict. What is wrong with it comes back as a list of *Error,
// each with file, line, column and what to write instead, before anything is
// started. What reads as correct is complete: every default is filled in and
// every rate is per second. [Schema] describes the same format to editors.
//
// What thresholds say and whether they are met is package threshold's, and how a
// load is offered package load's, for which [Experiment.Plan] puts the file's
// load in its terms. The package does not know Compose beyond the outline of an
// override: what the services are is lab/topology's, which
// [Experiment.CheckServices] is told about by the caller. It starts nothing and
// measures nothing.
//
// A file that has only a load ([LoadFile]) is read in the same way.
package experiment

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"loadstone/block/spelling"
	"loadstone/lab/threshold"
)

// The kinds of measurement.
const (
	// Capacity searches the highest rate at which the SLO holds.
	Capacity = "capacity"
	// AsWritten drives the scenarios exactly as they are written.
	AsWritten = "load"
)

const (
	defaultSeed = 1
	maxTrials   = 1000
	// minTrials is the fewest from which a 95 % interval on a median follows:
	// the probability that all of n trials lie on one side of it is 2/2^n.
	minTrials = 6
)

// DefaultSearch returns the search of an experiment that says nothing about
// it: 11 s of load to a trial, 5 % tolerance, up to 100,000 requests per second.
func DefaultSearch() Search {
	return Search{Budget: 11 * time.Second, Tolerance: 0.05, MaxRate: 100_000}
}

// Load reads the experiment in the file at path, and looks whether the files
// that it names are there and can be used. An error about what the file says is
// an [Errors]; one about reading it is the operating system's.
func Load(path string) (*Experiment, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the experiment: %w", err)
	}
	e, err := Parse(path, data)
	if err != nil {
		return nil, err
	}
	if err := e.checkFiles(&e.Load); err != nil {
		return nil, err
	}
	return e, nil
}

// Parse reads an experiment from data. file is its name in errors, and what
// the paths in it are relative to. It opens no other file. The error is an
// [Errors].
func Parse(file string, data []byte) (*Experiment, error) {
	d := &decoder{file: file}
	root := d.parse(data)
	var e *Experiment
	if root != nil && len(d.errs) == 0 { // a tree with holes would report what is not so
		e = d.experiment(root)
	}
	if err := d.errs.sorted(); err != nil {
		return nil, err
	}
	e.document = d.document(root, data)
	return e, nil
}

// experiment reads the whole file.
func (d *decoder) experiment(root *node) *Experiment {
	e := &Experiment{Seed: defaultSeed, Search: DefaultSearch()}
	s := d.section(root, root, "the experiment", "name: my-experiment, and the keys system, entry, variants, load, slo, measure and trials")
	if s == nil {
		return e
	}
	s.hints = map[string]hint{
		"thresholds": {"write them under slo", "slo"},
		"scenarios":  {"write them under load", "load"},
		"services":   {"write them within a variant, or in the Compose file that system names", ""},
	}
	if f := s.need("name", "name: my-experiment"); f.text() != "" && d.validName(f.n, "name", "name: results-caching") {
		e.Name = f.n.text
	}
	e.Question = s.may("question", "question: Which cache buys the most?").text()
	e.System = s.need("system", "system: compose.yaml").composeFiles()
	e.Profiles = s.may("profiles", "profiles: [monitoring]").profiles()
	e.Entry = s.need("entry", "entry: and the service that takes the load").text()
	s.variants(e)
	offer := s.need("load", "load: {scenarios: {lookup: {executor: constant-arrival-rate, request: GET /}}}")
	slo := s.may("slo", sloExample)
	measure := s.need("measure", "measure: capacity")
	e.Measure = measure.oneOf(Capacity, AsWritten)
	e.Load = offer.offer(e.Measure)
	e.SLO = slo.slo(&e.Load)
	faults, watch := s.may("faults", "faults: [{at: 60s, kill: api, instance: 1, for: 10s}]"), s.may("watch", watchExample)
	e.Faults = faults.faults(&e.Load)
	e.Watch = watch.watches()
	e.Trials = int(s.need("trials", "trials: 6").whole(1, maxTrials))
	if f := s.may("seed", "seed: 1"); f.given() {
		e.Seed = f.seed()
	}
	e.Search.read(s.may("search", "search: {budget: 11s}"))
	perturb := s.may("perturb", "perturb: {budget: 30s}")
	e.Perturb.read(perturb)
	s.carried(e)
	s.done()
	if e.Measure == AsWritten && perturb.n != nil {
		s.errorf(perturb.place, "perturb is for measure: capacity, which knows what rate the system bears; remove perturb")
	}
	if e.Measure == Capacity {
		s.capacity(e, measure, slo)
		for _, f := range []field{faults, watch} {
			if f.n != nil {
				s.errorf(f.place, "measure: capacity offers many rates for about a second each; remove %s, or write measure: load", f.key)
			}
		}
	}
	return e
}

// capacity checks what a search for capacity needs.
func (s *section) capacity(e *Experiment, measure, slo field) {
	switch {
	case slo.n == nil && !s.meant["slo"]:
		s.errorf(measure.n, "measure: capacity needs an SLO to search under; write %s", sloExample)
	case slo.given() && slo.n.kind == mapping && len(slo.n.pairs) == 0:
		s.errorf(slo.n, "slo is empty, and measure: capacity needs one to search under; write %s", sloExample)
	}
	p, ok := s.n.pair("load")
	if !ok {
		return
	}
	if warmup, ok := p.value.pair("warmup"); ok {
		s.errorf(warmup.key, "measure: capacity warms up each of its tries by itself; remove warmup, or write measure: load")
	}
	p, ok = p.value.pair("scenarios")
	if ok && len(p.value.pairs) == len(e.Load.Scenarios) {
		s.searched(e, p)
	}
}

// searched checks what is to be the one scenario whose rate is searched.
func (s *section) searched(e *Experiment, p pair) {
	for i, scenario := range e.Load.Scenarios {
		at := p.value.pairs[i]
		s.thinks(at)
		switch {
		case i > 0:
			s.errorf(at.key, "measure: capacity searches the rate of one scenario, and %s is another; remove it, or write measure: load", spelling.Quote(scenario.Name))
		case scenario.Executor != "" && !hasRate(scenario.Executor):
			executor, _ := at.value.pair("executor")
			s.errorf(executor.value, "measure: capacity searches a rate, and %s has none; write executor: constant-arrival-rate, or measure: load", scenario.Executor)
		case max(scenario.Rate, scenario.StartRate) > e.Search.MaxRate:
			rate, ok := at.value.pair("rate")
			if !ok {
				rate, _ = at.value.pair("startRate")
			}
			s.errorf(rate.value, "scenario %s starts above the search's maxRate, %g/s; write a lower rate, or a higher maxRate", spelling.Quote(scenario.Name), float64(e.Search.MaxRate))
		}
	}
}

// thinks refuses think time in what is searched.
func (s *section) thinks(scenario pair) {
	steps, ok := scenario.value.pair("steps")
	if !ok {
		return
	}
	for _, step := range steps.value.items {
		if think, ok := step.pair("think"); ok {
			s.errorf(think.key, "measure: capacity offers each rate for about a second, and think keeps iterations under way for longer, which looks like a backlog; remove think, or write measure: load")
		}
	}
}

// seed reads an unsigned number.
func (f field) seed() uint64 {
	if v, err := strconv.ParseUint(f.n.text, 10, 64); err == nil && f.n.kind == integer {
		return v
	}
	f.wrong("a whole number from 0 to 18446744073709551615")
	return 0
}

// read reads how to search.
func (to *Search) read(f field) {
	if !f.given() {
		return
	}
	s := f.section(f.n, f.place, "search", f.example)
	if s == nil {
		return
	}
	if b := s.may("budget", "budget: 11s"); b.given() {
		to.Budget = b.duration(time.Second)
	}
	if t := s.may("tolerance", "tolerance: 5%"); t.given() {
		to.Tolerance = t.share(0.001, 0.5)
	}
	if m := s.may("maxRate", "maxRate: 100000/s"); m.given() {
		to.MaxRate = m.positiveRate(timeUnit{})
	}
	s.done()
}

// SystemPaths returns the paths of the Compose files, from where the program
// runs, in the order in which they are merged.
func (e *Experiment) SystemPaths() []string {
	paths := make([]string, len(e.System))
	for i, path := range e.System {
		paths[i] = path
		if !filepath.IsAbs(path) {
			paths[i] = filepath.Join(filepath.Dir(e.file), path)
		}
	}
	return paths
}

// StartRate returns the rate, in requests per second, that the file gives a
// search for capacity to start from; ok is false if it gives none.
func (e *Experiment) StartRate() (rate float64, ok bool) {
	if len(e.Load.Scenarios) == 0 {
		return 0, false
	}
	first := e.Load.Scenarios[0]
	rate = float64(max(first.Rate, first.StartRate))
	return rate, rate > 0
}

// Notes returns what is allowed and may still not be meant, one sentence each,
// to be shown before the run.
func (e *Experiment) Notes() []string {
	var notes []string
	if e.Measure == Capacity && e.Trials < minTrials {
		notes = append(notes, fmt.Sprintf("trials: %d is too few for a 95 %% interval, which takes %d", e.Trials, minTrials))
	}
	if e.Measure == Capacity && !slices.ContainsFunc(e.SLO, func(o Objective) bool { return o.Metric == threshold.HTTPReqFailed }) {
		notes = append(notes, "the SLO says nothing about http_req_failed: a variant that answers with errors, fast, meets it")
	}
	for _, s := range e.Load.Scenarios {
		if e.Measure == Capacity && s.Rate > 0 {
			notes = append(notes, fmt.Sprintf("measure: capacity searches for a rate, and the one given, %v/s of scenario %q, only says where the search begins; measure: load offers it as written", float64(s.Rate), s.Name))
		}
		if e.Measure == Capacity && (s.Duration > 0 || len(s.Stages) > 0) {
			notes = append(notes, fmt.Sprintf("measure: capacity chooses how long and at which rates it offers load: the duration or stages of scenario %q are not used", s.Name))
		}
	}
	if _, given := e.root.pair("search"); given && e.Measure == AsWritten {
		notes = append(notes, "measure: load searches nothing: search is not used")
	}
	if len(e.Load.Target) > 0 {
		notes = append(notes, "an experiment loads its entry service: target is only used by loadstone load")
	}
	return notes
}
