// Package archive keeps a run: one execution of an experiment, as a directory of
// raw data that every report is derived from.
//
//	RUN/
//	  run.json          what was planned, where and when: written first
//	  experiment.yaml   the experiment file as it was run
//	  trials/001-query/
//	    trial.json      what was tried and what came of it: written when the trial ends
//	    samples.jsonl   what the probe saw, a line per sample
//	    hops.jsonl      how long requests waited, a line per fifth of a second
//	    windows.jsonl   what the generator did, a line per second
//	    events.jsonl    what was done to the system on purpose, a line per fault
//	    scaling.jsonl   how many replicas there were to be, a line per look
//	    logs/api-1.log  what each instance printed
//	  complete.json     written last; a run without it is not whole
//	  stopped.json      in place of it: when and why a run ended before it was done
//	  result.json, report.html   derived; can be made again
//
// Every JSON file is written under a temporary name, synced and renamed, so
// what is there under its name is whole. A run that was stopped or killed lacks
// complete.json: Open reads those of its trials that have ended, and says that
// it is partial.
//
// The package knows where things are and how they are written; what the
// numbers mean is the analysis's business.
package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"loadstone/block/atomicfile"
	"loadstone/lab/capacity"
	"loadstone/lab/fault"
	"loadstone/lab/host"
	"loadstone/lab/host/speed"
	"loadstone/lab/load"
	"loadstone/lab/perturb"
	"loadstone/lab/topology"
)

// Schema names the version of the raw data.
const Schema = "loadstone.run/2"

// WindowsFile is the file of a trial with what the generator did in each second
// of it, as lines of load.Window.
const WindowsFile = "windows.jsonl"

// ScalingFile is the file of a trial with what became of the replicas of services that
// were scaled, as lines of Scaling. It is there if the variant has such services.
const ScalingFile = "scaling.jsonl"

// Scaling is a look at a service that is scaled. The last line of a service is no look:
// Instances has what was stopped and started in the whole load.
type Scaling struct {
	Service string    `json:"service"`
	At      time.Time `json:"at"`
	// Ready replicas answered since the look before; Starting did not as yet.
	Ready    int `json:"ready"`
	Starting int `json:"starting"`
	// Utilisation is the mean of the ready ones, of what each may use.
	Utilisation float64 `json:"utilisation"`
	// Desired is how many there were to be from then on.
	Desired   int              `json:"desired"`
	Instances []fault.Affected `json:"instances,omitempty"`
}

// EventsFile is the file of a trial with what was done to the system on
// purpose, as lines of fault.Event. It is there if the experiment has faults.
const EventsFile = "events.jsonl"

// The files of a run and of its trials.
const (
	ManifestFile   = "run.json"
	ExperimentFile = "experiment.yaml"
	CompleteFile   = "complete.json"
	StoppedFile    = "stopped.json"
	TrialFile      = "trial.json"
	trialsDir      = "trials"
)

// Manifest is what a run set out to do, and where.
type Manifest struct {
	Schema      string      `json:"schema"`
	Experiment  string      `json:"experiment"`
	Seed        uint64      `json:"seed"`
	Started     time.Time   `json:"started"`
	Environment Environment `json:"environment"`
	Trials      []Planned   `json:"trials"`
	Warnings    []string    `json:"warnings,omitempty"`
}

// Planned is a trial in the order of the plan.
type Planned struct {
	Index   int    `json:"index"` // from 1
	Round   int    `json:"round"` // from 1
	Variant string `json:"variant"`
}

// Dir is where the trial is within the directory of its run.
func (p Planned) Dir() string {
	return filepath.Join(trialsDir, fmt.Sprintf("%03d-%s", p.Index, p.Variant))
}

// Environment is the machine and the versions that the numbers belong to.
type Environment struct {
	host.Machine
	Driver  string `json:"driver"`  // "process" or "docker"
	Version string `json:"version"` // Loadstone's
	Go      string `json:"go"`
}

// Trial is one variant, started fresh, under the load once.
type Trial struct {
	Planned
	Started   time.Time           `json:"started"`
	Ended     time.Time           `json:"ended"`
	Instances []topology.Instance `json:"instances"`
	Measures  []Measure           `json:"measures"`
	// LimitsEnforced is false if a stated limit could not be set.
	LimitsEnforced bool     `json:"limits_enforced"`
	Warnings       []string `json:"warnings,omitempty"`
	// Perturbations are the slots of the perturbation experiment, which one trial
	// of each variant may have. See perturb.Estimate.
	Perturbations []perturb.Slot `json:"perturbations,omitempty"`
	// Light is what came of a little load, which one trial of each variant may have: how
	// long requests take when they wait for nobody.
	Light *load.Result `json:"light,omitempty"`
	// Speeds is how fast the machine was before the trial and after it, while nothing of the
	// system ran; nil where the system runs on another machine, and of earlier versions.
	Speeds []speed.Reading `json:"speeds,omitempty"`
	// Unseen is why it was not seen how long requests wait between instances; empty if it was.
	Unseen string `json:"unseen,omitempty"`
	// Outsiders are the processes outside the run that used most CPU in the trial, where they
	// can be seen.
	Outsiders []host.Process `json:"outsiders,omitempty"`
}

// The kinds of measure beside the purposes of package capacity.
const (
	// Sweep is the closed sweep that finds where to start searching.
	Sweep = "sweep"
	// AsWritten is the load of the experiment file, unchanged.
	AsWritten = "as written"
)

// Measure is one piece of load within a trial, and its judgement.
type Measure struct {
	Kind string `json:"kind"`
	capacity.Try
	Result load.Result `json:"result"`
}

// Conclude is what the trial's tries amount to, and the measure that its
// figures come from: the last one at the capacity, or the one of the load as
// written. The measure is nil if no rate held.
func (t *Trial) Conclude() (capacity.Outcome, *Measure) {
	var tries []capacity.Try
	var at []int
	for i, m := range t.Measures {
		switch m.Kind {
		case AsWritten:
			return capacity.Outcome{Try: -1}, &t.Measures[i]
		case Sweep:
		default:
			m.Saw(&m.Result)
			tries, at = append(tries, m.Try), append(at, i)
		}
	}
	out := capacity.Conclude(tries)
	if out.Try < 0 {
		return out, nil
	}
	return out, &t.Measures[at[out.Try]]
}

// Dir is a run that is being written. It belongs to one goroutine.
type Dir struct {
	path    string
	planned int
	written int
}

// Create makes the directory of a new run below parent, named after the
// experiment and the time, and writes the manifest and the experiment file.
func Create(parent string, m Manifest, source []byte) (*Dir, error) {
	m.Schema = Schema
	path, err := makeDir(parent, m.Started.Format("20060102-150405")+"-"+m.Experiment)
	if err != nil {
		return nil, err
	}
	d := &Dir{path: path, planned: len(m.Trials)}
	if err := os.WriteFile(filepath.Join(path, ExperimentFile), source, 0o644); err != nil {
		return nil, err
	}
	return d, WriteJSON(filepath.Join(path, ManifestFile), m)
}

// makeDir makes parent/name, or name-2 and so on if it is taken.
func makeDir(parent, name string) (string, error) {
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(parent, name)
	for n := 2; ; n++ {
		err := os.Mkdir(path, 0o755)
		if err == nil || !errors.Is(err, fs.ErrExist) || n > 1000 {
			return path, err
		}
		path = filepath.Join(parent, fmt.Sprintf("%s-%d", name, n))
	}
}

// Path is the run's directory.
func (d *Dir) Path() string { return d.path }

// TrialDir makes and returns the directory of a trial.
func (d *Dir) TrialDir(p Planned) (string, error) {
	dir := filepath.Join(d.path, p.Dir())
	return dir, os.MkdirAll(filepath.Join(dir, "logs"), 0o755)
}

// WriteTrial keeps a trial that has ended.
func (d *Dir) WriteTrial(t Trial) error {
	if err := WriteJSON(filepath.Join(d.path, t.Dir(), TrialFile), t); err != nil {
		return err
	}
	d.written++
	return nil
}

type completion struct {
	Trials   int       `json:"trials"`
	Finished time.Time `json:"finished"`
}

// Complete marks the run as whole. Every planned trial must have been written.
func (d *Dir) Complete(now time.Time) error {
	if d.written != d.planned {
		return fmt.Errorf("complete run %s: %d of %d trials were written", d.path, d.written, d.planned)
	}
	return WriteJSON(filepath.Join(d.path, CompleteFile), completion{d.written, now})
}

// WriteJSON writes v to path whole or not at all: under a temporary name in
// the same directory, synced, then renamed.
func WriteJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return WriteFile(path, append(data, '\n'))
}

// WriteFile is WriteJSON for bytes. Others may read the file: a run holds no secrets.
func WriteFile(path string, data []byte) error { return atomicfile.Write(path, data, 0o644) }
