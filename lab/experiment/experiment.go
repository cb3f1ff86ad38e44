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
// Each key is declared once, as a field of a struct (see key).
package experiment

import (
	"slices"

	"github.com/invopop/jsonschema"

	"loadstone/block/spelling"
	"loadstone/lab/load"
)

// The doc comments of the types in this file and in the others of the format are also
// the descriptions in the JSON Schema, where an editor shows them while somebody writes
// an experiment: they speak of the file, by the names that the file uses.

// Experiment is a system, the variants to choose between, the load to offer,
// the objective that the variants must meet, and how to measure it.
type Experiment struct {
	// Names the experiment and the directories of its runs: letters, digits,
	// dots, dashes and underscores, at most 63.
	Name string `key:"name,need" eg:"my-experiment" form:"name"`

	// What the experiment is to answer, in one sentence. It heads the report.
	Question string `key:"question" eg:"Which cache buys the most?"`

	// Path of the Compose file, relative to this file, or a list of paths that are
	// merged in order, as by docker compose -f A -f B.
	System Files `key:"system,need" eg:"compose.yaml" least:"1" lone:"" path:"a Compose file"`

	// The profiles of the Compose file that are enabled: none if not given,
	// whatever COMPOSE_PROFILES says.
	Profiles []string `key:"profiles" eg:"[monitoring]" form:"profile" each:"profile %d" least:"1" list:"a list of names"`

	// The service that takes the load.
	Entry string `key:"entry,need" eg:"api"`

	// What is compared: for each name a Compose override of the system, {} for
	// the system as it is. The first is the baseline. With sweep there is one, which
	// all sizes are made from, or none.
	Variants Variants `key:"variants" eg:"{baseline: {}}" least:"1" list:"a mapping from names to Compose overrides" names:"variant"`

	// Instead of variants: one service in several sizes, each of which becomes a
	// variant, named as in replicas-3 or cpus-0.25.
	Sweep *Sweep `key:"sweep" eg:"{service: api, replicas: [1, 2, 3, 6]}"`

	// What is offered to every variant.
	Load Offer `key:"load,need" eg:"{scenarios: {lookup: {executor: constant-arrival-rate, request: GET /}}}"`

	// What every variant must meet: for each metric a list of k6's threshold
	// expressions, such as http_req_duration: [p(95)<200]. With a selector, as
	// in http_req_duration{step:login}, it is about that part of the load; with
	// " over 10s" at its end a threshold must hold in every 10 s of it.
	SLO SLO `key:"slo" eg:"{http_req_duration: [p(95)<200], http_req_failed: [rate<0.001]}"`

	// capacity searches the highest rate at which the SLO holds; load drives
	// the scenarios exactly as written.
	Measure string `key:"measure,need" eg:"capacity" enum:"capacity|load"`

	// What is done to the system on purpose while it is under load, in order of
	// time and one after the other. Only for measure: load.
	Faults []Fault `key:"faults" eg:"[{at: 60s, kill: api, instance: 1, for: 10s}]" each:"fault %d" most:"100"`

	// Prometheus metrics to follow over the load, each by a name of your own,
	// with bounds if they are to stay within some. Only for measure: load.
	Watch Watches `key:"watch" eg:"{queries: {metric: db_queries_total, service: api, as: rate}}" each:"watched metric %s" least:"1" list:"a mapping from names to metrics" most:"20" names:"watch"`

	// How often each variant is started fresh and measured. A 95 % interval
	// takes at least 6.
	Trials int `key:"trials,need" eg:"6" max:"1000" min:"1"`

	// Fixes the arrival times, the feeds and the order of the trials: the same
	// seed offers the same load.
	Seed uint64 `key:"seed" eg:"1" default:"1" min:"0"`

	// How measure: capacity searches. Every key has a default that serves.
	Search Search `key:"search" eg:"{budget: 11s}"`

	// Whether one trial of each variant ends with a perturbation experiment: under
	// steady load each component is given a little less and more CPU, to see which
	// of them limits. true, false, or how long it may take; if not given, it is
	// done where it makes a run at most a third longer. Only for measure: capacity.
	Perturb Perturb `key:"perturb" eg:"{budget: 30s}"`

	document
}

// The kinds of measurement.
const (
	// Capacity searches the highest rate at which the SLO holds.
	Capacity = "capacity"
	// AsWritten drives the scenarios exactly as they are written.
	AsWritten = "load"
)

// Load reads the experiment in the file at path, and looks whether the files
// that it names are there and can be used. An error about what the file says is
// an [Errors]; one about reading it is the operating system's.
func Load(path string) (*Experiment, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, unreadable(path, "an experiment file", err)
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
	return parse(&decoder{file: file}, data, "the experiment", "name: my-experiment, and the keys system, entry, variants, load, slo, measure and trials")
}

// parse reads what a file holds; example is what to write instead of another.
func parse(d *decoder, data []byte, what, example string) (*Experiment, error) {
	root := d.parse(data)
	e := &Experiment{Search: DefaultSearch()}
	if root != nil && !d.loadOnly {
		d.refuseCompose(root)
	}
	if root != nil && len(d.errs) == 0 { // a tree with holes would report what is not so
		if s := d.section(root, root, what, example); s != nil {
			s.read(e)
		}
	}
	if err := d.errs.sorted(); err != nil {
		return nil, err
	}
	e.document = d.document(root, data)
	return e, nil
}

// refuseCompose says so in place of all that a Compose file lacks to be an experiment.
func (d *decoder) refuseCompose(root *node) {
	services, found := root.pair("services")
	if _, offers := root.pair("load"); found && !offers {
		d.errorf(services.key, "this is a Compose file and no experiment; loadstone init %s writes an experiment for it", d.file)
	}
}

func (e *Experiment) prepare(s *section) {
	s.hints = map[string]hint{
		"thresholds": {"write them under slo", "slo"},
		"scenarios":  {"write them under load", "load"},
		"services":   {"write them within a variant, or in the Compose file that system names", ""},
	}
	if s.loadOnly {
		s.measure = AsWritten
		s.skipped = func(key string) bool { return key != "load" && key != "slo" && key != "seed" }
	} else if p, ok := s.n.pair("measure"); ok && (p.value.text == Capacity || p.value.text == AsWritten) {
		s.measure = p.value.text
	}
}

func (e *Experiment) check(s *section) {
	if s.fields["load"].sound {
		e.SLO.produced(s.fields["slo"], &e.Load)
	}
	if s.loadOnly {
		return
	}
	e.checkVariants(s)
	e.checkLoads(s)
	e.checkCarry(s)
	if f := s.fields["faults"]; f.sound {
		f.inTime(e.Faults, &e.Load)
	}
	if e.Measure == AsWritten {
		for _, f := range s.given("perturb") {
			s.errorf(f.place, "perturb is for measure: capacity, which knows what rate the system sustains; remove perturb")
		}
	}
	if e.Measure == Capacity {
		e.checkCapacity(s)
	}
}

// checkCapacity checks what a search for capacity needs.
func (e *Experiment) checkCapacity(s *section) {
	for _, f := range s.given("faults", "watch") {
		s.errorf(f.place, "measure: capacity offers many rates for about a second each; remove %s, or write measure: load", f.key)
	}
	switch slo := s.fields["slo"]; {
	case slo.n == nil && !s.meant["slo"]:
		s.errorf(s.fields["measure"].n, "measure: capacity needs an SLO to search under; write %s", slo.example)
	case slo.given() && slo.n.kind == mapping && len(slo.n.pairs) == 0:
		s.errorf(slo.n, "slo is empty, and measure: capacity needs one to search under; write %s", slo.example)
	}
	e.checkRaised(s)
	if p, ok := s.n.pair("load", "scenarios"); ok && len(p.value.pairs) == len(e.Load.Scenarios) {
		for i, at := range p.value.pairs {
			e.checkSearched(s, i, at)
		}
	}
	some := slices.ContainsFunc(e.Variants, func(v Variant) bool { return v.Load != nil })
	for i := range e.Variants {
		v := &e.Variants[i]
		if n := len(e.offered(v)); n > 1 && some && s.fields["variants"].sound {
			at := v.load.key
			if at == nil {
				at = v.root
			}
			s.errorf(at, "measure: capacity searches the rate of one scenario, and variant %s gets %d; write %s: {scenarios: [%s]} in it", spelling.Quote(v.Name), n, loadKey, e.Load.Scenarios[0].Name)
		}
	}
}

// checkSearched checks a scenario whose rate is searched: there is one.
func (e *Experiment) checkSearched(s *section, i int, at pair) {
	if list, ok := at.value.pair("steps"); ok {
		steps, _ := e.Load.Scenarios[i].places(list.value)
		for _, step := range steps {
			if think, ok := step.n.pair("think"); ok {
				s.errorf(think.key, "measure: capacity offers each rate for about a second, and think keeps iterations under way for longer, which looks like a backlog; remove think, or write measure: load")
			}
		}
	}
	scenario := &e.Load.Scenarios[i]
	switch {
	case i > 0 && !slices.ContainsFunc(e.Variants, func(v Variant) bool { return v.Load != nil }):
		s.errorf(at.key, "measure: capacity searches the rate of one scenario, and %s is another; remove it, or write measure: load", spelling.Quote(scenario.Name))
	case scenario.WebSocket != nil:
		e.checkSearchedClients(s, scenario, at)
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

// rules say what each kind of measurement needs, that variants are listed or swept,
// and that what is swept has one base.
func (*Experiment) rules(s *schema) {
	var complete []*schema
	for _, ex := range executors() {
		complete = append(complete, &schema{If: isOneOf("executor", ex.name), Then: with(ex.needs...)})
	}
	search := without("faults", "watch")
	search.Required = []string{"slo"}
	search.Properties.Set("slo", &schema{MinProperties: count64(1)})
	offer := without("k6")
	offer.Properties.Set("scenarios", &schema{
		AdditionalProperties: &schema{
			If:   with("websocket"),
			Then: where(&schema{Enum: words([]string{load.ConstantVUs})}, "executor"),
			Else: where(&schema{Enum: words(executorNames(hasRate))}, "executor"),
		},
	})
	search.Properties.Set("load", offer)
	written := where(&schema{AdditionalProperties: &schema{AllOf: complete}}, "load", "scenarios")
	written.Properties.Set("perturb", jsonschema.FalseSchema)
	written.Properties.Set("sweep", without("carry"))
	s.AllOf = []*schema{
		{If: isOneOf("measure", Capacity), Then: search},
		{If: isOneOf("measure", AsWritten), Then: written},
		either(with("variants"), with("sweep")),
		{If: with("sweep"), Then: where(&schema{MaxProperties: count64(1)}, "variants")},
	}
}
