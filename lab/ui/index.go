package ui

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/experiment"
	"loadstone/lab/report"
	"loadstone/lab/result"
)

// maxRuns bounds the index. Directories beyond it, the oldest by name, are not
// listed, and the list says so.
const maxRuns = 20_000

// maxText bounds what is kept of an experiment file for the filter. One has a
// few KB.
const maxText = 64 << 10

// entry is a run in the list.
type entry struct {
	Name       string // of its directory
	Experiment string
	Started    time.Time
	State      state
	Trouble    string // why it is broken
	Ended      int    // trials
	Planned    int
	Variants   []string

	text     string // what is searched, in lower case
	manifest stamp
	complete stamp
	// details are read when the entry is shown for the first time, and again when
	// the result has changed: reading an experiment file or a result takes
	// milliseconds, which thousands of runs do not have.
	details details
	read    bool
	result  stamp
}

// details are what the list shows of a run beside the entry.
type details struct {
	Question  string
	Headlines []report.Headline // none if the run is not whole or has no result yet
}

// index knows the runs of a directory. What it has read of a run it keeps, by
// the times and sizes of its files: thousands of runs cost a few looks at the
// directory each, and only those that are shown have their result read.
//
// It is bounded by maxRuns, and forgets a run whose directory is gone. If a
// directory cannot be read it fails closed: the list is an error, and not a
// shorter list.
type index struct {
	dir string
	now func() time.Time

	mu   sync.Mutex
	seen map[string]*entry
}

func newIndex(dir string) *index {
	return &index{dir: dir, now: time.Now, seen: map[string]*entry{}}
}

// openRun opens a run's directory. The name comes from strangers: it is one
// element of a path, and no link.
func (x *index) openRun(name string) (*os.Root, error) {
	if !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "/\\") {
		return nil, fs.ErrNotExist
	}
	root, err := os.OpenRoot(x.dir)
	if err != nil {
		return nil, fmt.Errorf("open the directory of runs: %w", err)
	}
	defer root.Close() //nolint:errcheck // read only
	info, err := root.Lstat(name)
	if err != nil || !info.IsDir() {
		return nil, fs.ErrNotExist
	}
	return root.OpenRoot(name)
}

// all returns every run, the newest first, and how many were left out.
func (x *index) all() ([]*entry, int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	dirs, err := os.ReadDir(x.dir) // by name, which begins with the time
	if err != nil {
		return nil, 0, fmt.Errorf("look for runs: %w", err)
	}
	dirs = slices.DeleteFunc(dirs, func(d fs.DirEntry) bool { return !d.IsDir() })
	left := max(0, len(dirs)-maxRuns)
	seen := make(map[string]*entry, len(dirs))
	var out []*entry
	for _, d := range dirs[left:] {
		e := x.look(d.Name(), x.seen[d.Name()])
		if e == nil {
			continue
		}
		seen[e.Name] = e
		out = append(out, e)
	}
	x.seen = seen
	slices.SortStableFunc(out, func(a, b *entry) int {
		return cmp.Or(b.Started.Compare(a.Started), strings.Compare(b.Name, a.Name))
	})
	return out, left, nil
}

// one returns a single run; nil if there is none of that name.
func (x *index) one(name string) *entry {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.look(name, x.seen[name])
	if e != nil {
		x.seen[name] = e
	}
	return e
}

// look returns the entry of a run: the one from before if nothing has changed.
// It is nil for a directory that is no run.
func (x *index) look(name string, before *entry) *entry {
	root, err := x.openRun(name)
	if err != nil {
		return nil
	}
	defer root.Close() //nolint:errcheck // read only
	manifest, complete := stampOf(root, archive.ManifestFile), stampOf(root, archive.CompleteFile)
	if before != nil && before.manifest == manifest && before.complete == complete && (before.State == whole || before.State == broken) {
		return before
	}
	source := stampOf(root, archive.ExperimentFile)
	if !manifest.there() && !source.there() {
		return nil
	}
	e := &entry{Name: name, manifest: manifest, complete: complete}
	x.fill(root, e)
	return e
}

// fill fills in an entry.
func (x *index) fill(root *os.Root, e *entry) {
	source, _ := readSmall(root, archive.ExperimentFile) // a run without it is named, and found, by the rest
	m, err := readManifest(root)
	if err != nil {
		e.State, e.Trouble, e.Started = broken, err.Error(), lastWrite(root, nil)
	} else {
		x.readManifest(root, e, m)
	}
	e.text = strings.ToLower(strings.Join([]string{e.Name, e.Experiment, string(e.State), strings.Join(e.Variants, " "), string(source[:min(len(source), maxText)])}, "\n"))
}

func (x *index) readManifest(root *os.Root, e *entry, m archive.Manifest) {
	e.Experiment, e.Started, e.Planned = m.Experiment, m.Started, len(m.Trials)
	for _, p := range m.Trials {
		if !slices.Contains(e.Variants, p.Variant) {
			e.Variants = append(e.Variants, p.Variant)
		}
	}
	if e.complete.there() {
		e.State, e.Ended = whole, e.Planned
		return
	}
	var current *archive.Planned
	e.Ended, current = progress(root, m)
	e.State = stopped
	if !stampOf(root, archive.StoppedFile).there() && x.now().Sub(lastWrite(root, current)) < quiet {
		e.State = underWay
	}
}

// matching keeps the entries that have every word of a text somewhere: in their
// names, the variants, the state or the experiment file, which has the question.
func matching(entries []*entry, text string) []*entry {
	words := strings.Fields(strings.ToLower(text))
	return slices.DeleteFunc(entries, func(e *entry) bool {
		return slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(e.text, w) })
	})
}

// show returns the details of a run.
func (x *index) show(e *entry) details {
	x.mu.Lock()
	defer x.mu.Unlock()
	root, err := x.openRun(e.Name)
	if err != nil {
		return details{}
	}
	defer root.Close() //nolint:errcheck // read only
	now := stampOf(root, resultFile)
	if e.read && now == e.result {
		return e.details
	}
	e.read, e.result, e.details = true, now, details{}
	if source, err := readSmall(root, archive.ExperimentFile); err == nil {
		if exp, err := experiment.Parse(archive.ExperimentFile, source); err == nil {
			e.details.Question = exp.Question
		}
	}
	if e.State != whole {
		return e.details
	}
	f, _, err := openRegular(root, resultFile)
	if err != nil {
		return e.details
	}
	defer f.Close() //nolint:errcheck // read only
	// One that cannot be read was left by another version: the run's page
	// derives it again.
	if r, err := result.ReadJSON(f); err == nil {
		e.details.Headlines = report.Headlines(r)
	}
	return e.details
}

// rawFile is a file of a run.
type rawFile struct {
	Path string
	Size int64
}

// maxListed bounds the list of a run's files.
const maxListed = 5000

// files lists a run's files; cut says that there are more.
func files(root *os.Root) (out []rawFile, cut bool, err error) {
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // what cannot be read is not listed
		}
		if len(out) == maxListed {
			cut = true
			return fs.SkipAll
		}
		if info, err := d.Info(); err == nil {
			out = append(out, rawFile{path.Clean(name), info.Size()})
		}
		return nil
	})
	return out, cut, err
}
