package archive

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var start = time.Date(2026, 6, 1, 8, 0, 0, 0, time.UTC)

func create(t *testing.T, parent string, trials int) *Dir {
	t.Helper()
	m := Manifest{Experiment: "e", Seed: 7, Started: start}
	for i := range trials {
		m.Trials = append(m.Trials, Planned{Index: i + 1, Round: 1, Variant: "a"})
	}
	d, err := Create(parent, m, []byte("name: e\n"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func write(t *testing.T, d *Dir, index int) {
	t.Helper()
	p := Planned{Index: index, Round: 1, Variant: "a"}
	if _, err := d.TrialDir(p); err != nil {
		t.Fatal(err)
	}
	if err := d.WriteTrial(Trial{Planned: p, Started: start}); err != nil {
		t.Fatal(err)
	}
}

func TestWholeRunIsReadBack(t *testing.T) {
	t.Parallel()
	d := create(t, t.TempDir(), 2)
	write(t, d, 1)
	write(t, d, 2)
	if err := d.Complete(start.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	r, err := Open(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	if r.Seed != 7 || len(r.Trials) != 2 || r.Trials[1].Index != 2 || string(r.Source) != "name: e\n" || !r.Finished.Equal(start.Add(time.Minute)) {
		t.Errorf("got %+v", r)
	}
}

func TestStoppedRunHasItsWholeTrials(t *testing.T) {
	t.Parallel()
	m := Manifest{Experiment: "e", Started: start}
	for i, v := range []string{"a", "b", "c", "a"} {
		m.Trials = append(m.Trials, Planned{Index: i + 1, Round: 1 + i/3, Variant: v})
	}
	d, err := Create(t.TempDir(), m, []byte("name: e\n"))
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range m.Trials[:3] {
		if _, err := d.TrialDir(p); err != nil {
			t.Fatal(err)
		}
		if err := d.WriteTrial(Trial{Planned: p, Ended: start.Add(time.Duration(i+1) * time.Minute)}); err != nil {
			t.Fatal(err)
		}
	}
	// What is half-written is no trial: c's record is cut short, as by a full disk.
	if err := os.Truncate(filepath.Join(d.Path(), trialsDir, "003-c", TrialFile), 20); err != nil {
		t.Fatal(err)
	}
	r, err := Open(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	if want := "2 of 4 trials; its end was not recorded: it was killed, or it is still under way; left out, for lack of a trial that ended: c"; r.Partial == nil || r.Partial.String() != want {
		t.Errorf("got %v, want %q", r.Partial, want)
	}
	if len(r.Trials) != 2 || r.Trials[1].Variant != "b" || !r.Finished.Equal(start.Add(2*time.Minute)) {
		t.Errorf("got trials %+v, finished %v", r.Trials, r.Finished)
	}
	if err := d.Complete(start); err == nil {
		t.Error("a run that lacks a trial was marked as whole")
	}
	if err := Stop(d.Path(), "the run was stopped", start.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if r, err = Open(d.Path()); err != nil || r.Partial.Why != "the run was stopped" || !r.Finished.Equal(start.Add(time.Hour)) {
		t.Errorf("got %+v, %v", r, err)
	}
	if _, whole := Whole(d.Path()); whole {
		t.Error("a run that was stopped counts as whole")
	}
}

func TestRunWithoutATrialIsRefused(t *testing.T) {
	t.Parallel()
	d := create(t, t.TempDir(), 3)
	if err := Stop(d.Path(), "the run was stopped", start); err != nil {
		t.Fatal(err)
	}
	var incomplete *IncompleteError
	if _, err := Open(d.Path()); !errors.As(err, &incomplete) || incomplete.Planned != 3 || incomplete.Why != "the run was stopped" {
		t.Errorf("got %v, want none of 3 trials", err)
	}
	if _, err := os.Stat(filepath.Join(d.Path(), CompleteFile)); err == nil {
		t.Error("complete.json is there")
	}
}

func TestWholeRunStaysWhole(t *testing.T) {
	t.Parallel()
	d := create(t, t.TempDir(), 1)
	write(t, d, 1)
	if err := d.Complete(start); err != nil {
		t.Fatal(err)
	}
	if err := Stop(d.Path(), "the run was stopped", start); err != nil {
		t.Fatal(err)
	}
	if r, err := Open(d.Path()); err != nil || r.Partial != nil {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestDamagedRunIsRefused(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(dir string) error{
		"no manifest":      func(dir string) error { return os.Remove(filepath.Join(dir, ManifestFile)) },
		"trial gone":       func(dir string) error { return os.RemoveAll(filepath.Join(dir, trialsDir)) },
		"no experiment":    func(dir string) error { return os.Remove(filepath.Join(dir, ExperimentFile)) },
		"another format":   func(dir string) error { return WriteJSON(filepath.Join(dir, ManifestFile), Manifest{Schema: "x/9"}) },
		"trial cut short":  func(dir string) error { return os.Truncate(filepath.Join(dir, trialsDir, "001-a", TrialFile), 20) },
		"marker cut short": func(dir string) error { return os.Truncate(filepath.Join(dir, CompleteFile), 3) },
	} {
		d := create(t, t.TempDir(), 1)
		write(t, d, 1)
		if err := d.Complete(start); err != nil {
			t.Fatal(err)
		}
		if err := damage(d.Path()); err != nil {
			t.Fatal(err)
		}
		if r, err := Open(d.Path()); err == nil {
			t.Errorf("%s: read as %+v", name, r)
		}
	}
}

func TestRunsDoNotCollide(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	a, b := create(t, parent, 1), create(t, parent, 1)
	if a.Path() == b.Path() {
		t.Errorf("two runs share %s", a.Path())
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, err := CreateLines(dir, "x.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		if err := l.Write(i); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	n := 0
	if err := ReadLines(dir, "x.jsonl", func(i int) { n += i }); err != nil || n != 499500 {
		t.Errorf("got %d, %v; want 499500", n, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bad.jsonl"), []byte("1\n{\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ReadLines(dir, "bad.jsonl", func(int) {}); err == nil || !strings.Contains(err.Error(), "bad.jsonl") {
		t.Errorf("got %v, want an error that names the file", err)
	}
}
