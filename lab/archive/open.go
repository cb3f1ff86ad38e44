package archive

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Run is a run, read back: a whole one, or those trials of one that have ended.
type Run struct {
	Manifest
	Path string
	// Finished is when the run ended, or its last trial if that is not known.
	Finished time.Time
	Source   []byte  // the experiment file as it was run
	Trials   []Trial // those that have ended, in the order of the plan
	// Partial says what a run that is not whole lacks; nil for a whole one.
	Partial *Partial
}

// IncompleteError says that a directory holds a run of which no trial has ended.
type IncompleteError struct {
	Path    string
	Planned int
	Why     string
}

func (e *IncompleteError) Error() string {
	return fmt.Sprintf("run %s is incomplete, and none of its %d trials was completed: %s; run the experiment again", e.Path, e.Planned, e.Why)
}

// Open reads the run in dir. Of a run that is not whole it reads the trials that
// have ended; if there are none, it is an *IncompleteError.
func Open(dir string) (*Run, error) {
	r := &Run{Path: dir}
	if err := readJSON(filepath.Join(dir, ManifestFile), &r.Manifest); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, noRunf("%s is no run: it has no %s; write the directory of one", dir, ManifestFile)
		}
		return nil, err
	}
	if r.Schema != Schema {
		return nil, fmt.Errorf("run %s has the format %q; this version reads %q", dir, r.Schema, Schema)
	}
	var err error
	if r.Source, err = os.ReadFile(filepath.Join(dir, ExperimentFile)); err != nil {
		return nil, err
	}
	var done completion
	err = readJSON(filepath.Join(dir, CompleteFile), &done)
	if errors.Is(err, fs.ErrNotExist) {
		return r.readPart()
	}
	if err != nil {
		return nil, err
	}
	r.Finished = done.Finished
	for _, p := range r.Manifest.Trials {
		var t Trial
		if err := readJSON(filepath.Join(dir, p.Dir(), TrialFile), &t); err != nil {
			return nil, err
		}
		r.Trials = append(r.Trials, t)
	}
	return r, nil
}

// TrialDir is the directory of one of the run's trials.
func (r *Run) TrialDir(p Planned) string { return filepath.Join(r.Path, p.Dir()) }

func readJSON(path string, v any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// Lines is a file of JSON lines that is being written. It belongs to one
// goroutine. Lines become visible in batches, about once a second while it is
// written, so whoever follows the file may see half of a last line.
type Lines struct {
	f       *os.File
	w       *bufio.Writer
	e       *json.Encoder
	flushed time.Time
}

// flushEvery is rare enough to cost nothing beside what is measured.
const flushEvery = time.Second

// CreateLines makes the file of JSON lines name in dir.
func CreateLines(dir, name string) (*Lines, error) {
	f, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	w := bufio.NewWriterSize(f, 64<<10)
	return &Lines{f: f, w: w, e: json.NewEncoder(w)}, nil
}

// Write appends v as one line.
func (l *Lines) Write(v any) error {
	if err := l.e.Encode(v); err != nil || time.Since(l.flushed) < flushEvery {
		return err
	}
	l.flushed = time.Now()
	return l.w.Flush()
}

// Close writes out what is buffered and closes the file.
func (l *Lines) Close() error { return errors.Join(l.w.Flush(), l.f.Close()) }

// ReadLines calls each with every line of the file of JSON lines name in dir.
func ReadLines[T any](dir, name string, each func(T)) error {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // read only
	dec := json.NewDecoder(bufio.NewReaderSize(f, 64<<10))
	for dec.More() {
		var v T
		if err := dec.Decode(&v); err != nil {
			return fmt.Errorf("read %s: %w", f.Name(), err)
		}
		each(v)
	}
	return nil
}
