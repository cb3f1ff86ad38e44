package experiment_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loadstone/lab/experiment"
	"loadstone/lab/fault"
	"loadstone/lab/load"
)

// FuzzParse holds Parse to what its callers rely on, whatever the file says:
// it ends without a panic, in errors that can be printed or in an experiment
// that can be run.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/good/*.yaml", "testdata/bad/*.yaml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			f.Fatalf("found %d files of %s (%v), want some", len(paths), pattern, err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if l, err := experiment.ParseLoad("x.yaml", data); err != nil {
			checkErrors(t, err)
		} else {
			checkPlan(t, l.Plan())
			checkValid(t, l)
		}
		e, err := experiment.Parse("x.yaml", data)
		if err != nil {
			checkErrors(t, err)
			return
		}
		checkExperiment(t, e)
	})
}

func checkErrors(t *testing.T, err error) {
	t.Helper()
	var errs experiment.Errors
	if !errors.As(err, &errs) || len(errs) == 0 || len(errs) > 21 {
		t.Fatalf("Parse fails with %d errors in a %T: %v", len(errs), err, err)
	}
	for _, e := range errs {
		if e.Line < 1 || e.Column < 1 || e.File != "x.yaml" || e.Message == "" || strings.ContainsAny(e.Message, "\n\r") {
			t.Errorf("a badly formed error: %q", e)
		}
	}
}

func checkExperiment(t *testing.T, e *experiment.Experiment) {
	t.Helper()
	if e.Name == "" || len(e.System) == 0 || e.Entry == "" || len(e.Variants) == 0 || e.Trials < 1 {
		t.Fatalf("Parse accepts an incomplete experiment: %+v", e)
	}
	checkPlan(t, e.Plan())
	e.Notes(len(e.Variants))
	e.Position("variants", e.Variants[0].Name, "services")
	if err := e.CheckServices([]string{e.Entry}); err != nil {
		checkErrors(t, err)
	}
	checkFaults(t, e)
	for _, v := range e.Variants {
		checkOverlay(t, v)
	}
}

// checkFaults holds faults and watched metrics to what carries them out.
func checkFaults(t *testing.T, e *experiment.Experiment) {
	t.Helper()
	instances := map[string]int{}
	for i := range e.Faults {
		_, service := e.Faults[i].Action()
		instances[service] = max(instances[service], 1, e.Faults[i].Instance)
	}
	if err := e.CheckFaults("v", instances); err != nil {
		t.Errorf("faults on what is there: %v", err)
	}
	if err := e.CheckFaults("v", nil); (err != nil) != (len(e.Faults) > 0) {
		t.Errorf("faults on what is not there: %v", err)
	}
	for i := range e.Faults {
		if p := e.Faults[i].Plan(instances); len(p.Targets) == 0 || p.At <= 0 || p.Action == fault.Exec && len(p.Command) == 0 {
			t.Errorf("Parse accepts a fault that cannot be carried out: %+v", p)
		}
	}
	for i := range e.Watch {
		if _, err := e.Watch[i].Follow(); err != nil {
			t.Errorf("Parse accepts a metric that cannot be followed: %v", err)
		}
	}
}

// checkPlan holds a plan to what the generator needs of it.
func checkPlan(t *testing.T, p load.Plan) {
	t.Helper()
	if _, err := json.Marshal(p); err != nil {
		t.Errorf("the plan has no JSON form: %v", err)
	}
	for _, s := range p.Scenarios {
		if s.Rate < 0 || s.Duration < 0 || s.MaxVUs < s.PreAllocatedVUs || len(s.Steps) == 0 && s.Log == nil && s.WebSocket == nil {
			t.Errorf("Parse accepts a scenario that cannot run: %+v", s)
		}
		for _, step := range s.Steps {
			if step.Name == "" || step.Request.Method == "" || !strings.HasPrefix(step.Request.Path, "/") {
				t.Errorf("Parse accepts a step that cannot run: %+v", step)
			}
		}
		for name, f := range s.Feed {
			if err := f.Validate(); err != nil {
				t.Errorf("Parse accepts the feed %s: %v", name, err)
			}
		}
	}
}

// checkValid holds a load to what the generator accepts.
func checkValid(t *testing.T, l *experiment.LoadFile) {
	t.Helper()
	p := l.Plan()
	if l.Offer.K6 != nil {
		return
	}
	if len(p.Targets) == 0 {
		p.Targets = []string{"http://127.0.0.1:8080"}
	}
	if err := p.Validate(); err != nil {
		t.Errorf("ParseLoad accepts what the generator does not: %v", err)
	}
}

// checkOverlay writes an overlay into another experiment, where it must read
// as itself.
func checkOverlay(t *testing.T, v experiment.Variant) {
	t.Helper()
	overlay := "      " + strings.TrimSuffix(strings.ReplaceAll(string(v.Overlay), "\n", "\n      "), "      ")
	source := `name: x
system: c.yaml
entry: a
variants:
  x:
` + overlay + `load: {scenarios: {a: {executor: constant-vus, vus: 1, duration: 1s, request: GET /}}}
measure: load
trials: 1
`
	again, err := experiment.Parse("x.yaml", []byte(source))
	if err != nil {
		t.Fatalf("the overlay\n%s\ndoes not read: %v", v.Overlay, err)
	}
	if got := string(again.Variants[0].Overlay); got != string(v.Overlay) {
		t.Errorf("the overlay\n%s\nreads as\n%s", v.Overlay, got)
	}
}
