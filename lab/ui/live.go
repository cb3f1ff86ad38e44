package ui

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/experiment"
)

// live follows a run under way. It belongs to one goroutine; whoever opens it
// must close it.
type live struct {
	root     *os.Root
	manifest archive.Manifest
	question string
	measure  string // capacity or load; empty if the experiment file cannot be read
	ended    map[int]*ended
	// limits are CPU shares of components by variant, of the trials that have
	// ended: while one is under way, nothing on disk says them.
	limits  map[string]map[string]float64
	current *current
	trouble string // why the raw files of the current trial cannot be read
}

// ended is a trial that has.
type ended struct {
	Seconds float64
	// Rate is the capacity, or the offered rate of the load as written, in
	// requests per second; 0 if no rate held.
	Rate       float64
	LowerBound bool
	Tries      int
	P95        float64 // ms, at that rate
	Warnings   int
}

// openLive begins to follow a run.
func openLive(root *os.Root) (*live, error) {
	m, err := readManifest(root)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	l := &live{root: root, manifest: m, ended: map[int]*ended{}, limits: map[string]map[string]float64{}}
	if source, err := readSmall(root, archive.ExperimentFile); err == nil {
		if exp, err := experiment.Parse(archive.ExperimentFile, source); err == nil {
			l.question, l.measure = exp.Question, exp.Measure
		}
	}
	return l, nil
}

func (l *live) close() error { return l.root.Close() }

// refresh takes in what has been written since the last call.
func (l *live) refresh() error {
	var next *archive.Planned
	for i := range l.manifest.Trials {
		p := &l.manifest.Trials[i]
		if l.ended[p.Index] != nil {
			continue
		}
		var t archive.Trial
		switch err := readJSON(l.root, path.Join(p.Dir(), archive.TrialFile), &t); {
		case errors.Is(err, fs.ErrNotExist):
			if next == nil {
				next = p
			}
		case err != nil:
			return err
		default:
			l.end(p, &t)
		}
	}
	l.follow(next)
	if l.current == nil {
		return nil
	}
	l.trouble = ""
	if err := l.current.refresh(); err != nil {
		l.trouble = fmt.Sprintf("The raw data of this trial cannot be shown: %v.", err)
	}
	return nil
}

// follow has the trial that is under way be the current one.
func (l *live) follow(p *archive.Planned) {
	switch {
	case p == nil:
		l.current = nil
	case l.current == nil || l.current.Index != p.Index:
		l.current = newCurrent(l.root, *p)
	}
}

func (l *live) end(p *archive.Planned, t *archive.Trial) {
	out, m := t.Conclude()
	e := &ended{Seconds: t.Ended.Sub(t.Started).Seconds(), Rate: out.Rate, LowerBound: out.LowerBound, Tries: len(t.Measures), Warnings: len(t.Warnings)}
	if m != nil {
		e.P95 = m.Result.Response.P95
		if m.Kind == archive.AsWritten {
			e.Rate = m.Rate
		}
	}
	l.ended[p.Index] = e
	limits := map[string]float64{}
	for _, in := range t.Instances {
		limits[in.Service] += in.LimitCPUs
	}
	l.limits[p.Variant] = limits
}

// state is how far the run has come.
func (l *live) state(now time.Time) state {
	if stampOf(l.root, archive.CompleteFile).there() {
		return whole
	}
	if stampOf(l.root, archive.StoppedFile).there() {
		return stopped
	}
	_, p := progress(l.root, l.manifest)
	if now.Sub(lastWrite(l.root, p)) < quiet {
		return underWay
	}
	return stopped
}

// whyStopped says why the run is not whole, and how to read what there is of it. details
// are lines that belong to it, such as the last ones of a log; empty for none.
func (l *live) whyStopped(e *entry) (text, details string) {
	text = fmt.Sprintf("It was stopped after %d of %d trials: ", e.Ended, e.Planned)
	var end struct {
		Why     string `json:"why"`
		Details string `json:"details"`
	}
	if err := readJSON(l.root, archive.StoppedFile, &end); err == nil && end.Why != "" {
		text += end.Why + ". "
	} else {
		text += fmt.Sprintf("nothing has been written for %.0f minutes. ", quiet.Minutes())
	}
	switch {
	case e.Ended == 0:
		text += "It has no report; run the experiment again."
	case stampOf(l.root, reportFile).there():
		text += "Its report is about those that ended."
	default:
		text += "loadstone report " + e.Name + " reports on those that ended."
	}
	return text, end.Details
}

// remaining is about how long the trials to come take, by those that have ended;
// known is false before the first has.
func (l *live) remaining() (d time.Duration, known bool) {
	if len(l.ended) == 0 {
		return 0, false
	}
	sum := 0.0
	for _, e := range l.ended {
		sum += e.Seconds
	}
	mean := sum / float64(len(l.ended))
	return time.Duration(mean * float64(len(l.manifest.Trials)-len(l.ended)) * float64(time.Second)), true
}
