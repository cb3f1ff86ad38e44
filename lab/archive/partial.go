package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Partial is a run that is not whole.
type Partial struct {
	Ended, Planned int // trials
	// Why is the reason as far as it is known, such as "the run was stopped".
	Why string
	// Without are the variants none of whose trials has ended.
	Without []string
}

// String is what a reader must know before any figure: "7 of 24 trials; the run
// was stopped".
func (p *Partial) String() string {
	text := fmt.Sprintf("%d of %d trials; %s", p.Ended, p.Planned, p.Why)
	if len(p.Without) > 0 {
		text += "; left out, for lack of a trial that ended: " + strings.Join(p.Without, ", ")
	}
	return text
}

// unrecorded is why a run is partial that did not get to say so.
const unrecorded = "its end was not recorded: it was killed, or it is still under way"

// stop is the content of stopped.json.
type stop struct {
	Finished time.Time `json:"finished"`
	Why      string    `json:"why"`
	// Details are what there is to read beside it, such as the last lines of a log.
	Details string `json:"details,omitempty"`
}

// Stop keeps when and why the run in dir ended before it was done, as a phrase
// such as "the run was stopped". What follows it on further lines is kept as details, such
// as the last lines of a log. A run that is whole stays so.
func Stop(dir, why string, now time.Time) error {
	if _, err := os.Stat(filepath.Join(dir, CompleteFile)); err == nil {
		return nil
	}
	why, details, _ := strings.Cut(why, "\n")
	if err := WriteJSON(filepath.Join(dir, StoppedFile), stop{now, why, details}); err != nil {
		return fmt.Errorf("record why the run ended: %w", err)
	}
	return nil
}

// readPart reads the trials that have ended of a run that is not whole.
func (r *Run) readPart() (*Run, error) {
	r.Partial = &Partial{Planned: len(r.Manifest.Trials), Why: unrecorded}
	for _, p := range r.Manifest.Trials {
		t, err := readEnded(filepath.Join(r.Path, p.Dir(), TrialFile))
		if err != nil {
			return nil, err
		}
		if t != nil {
			r.Trials = append(r.Trials, *t)
			r.Finished = t.Ended
		}
	}
	r.Partial.Ended = len(r.Trials)
	var s stop
	err := readJSON(filepath.Join(r.Path, StoppedFile), &s)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil {
		r.Finished, r.Partial.Why = s.Finished, s.Why
	}
	if len(r.Trials) == 0 {
		return nil, &IncompleteError{Path: r.Path, Planned: r.Partial.Planned, Why: r.Partial.Why}
	}
	for _, p := range r.Manifest.Trials {
		has := slices.ContainsFunc(r.Trials, func(t Trial) bool { return t.Variant == p.Variant })
		if !has && !slices.Contains(r.Partial.Without, p.Variant) {
			r.Partial.Without = append(r.Partial.Without, p.Variant)
		}
	}
	return r, nil
}

// Ended is how many trials of the run in dir have ended; 0 if it holds no run.
func Ended(dir string) int {
	var m Manifest
	if err := readJSON(filepath.Join(dir, ManifestFile), &m); err != nil {
		return 0
	}
	n := 0
	for _, p := range m.Trials {
		if _, err := os.Stat(filepath.Join(dir, p.Dir(), TrialFile)); err == nil {
			n++
		}
	}
	return n
}

// readEnded reads the record of a trial; it is nil for one that has not ended. A
// record that is cut short, as by a full disk, is of none.
func readEnded(path string) (*Trial, error) {
	var t Trial
	err := readJSON(path, &t)
	_, cut := errors.AsType[*json.SyntaxError](err)
	switch {
	case cut || errors.Is(err, fs.ErrNotExist):
		return nil, nil //nolint:nilnil // no trial, and nothing wrong
	case err != nil:
		return nil, err
	}
	return &t, nil
}
