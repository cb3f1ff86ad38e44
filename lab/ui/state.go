package ui

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"loadstone/lab/archive"
)

// The files that are derived from a run, in its directory.
const (
	resultFile = "result.json"
	reportFile = "report.html"
)

// state is how far a run has come.
type state string

const (
	whole    state = "whole"
	underWay state = "under way"
	stopped  state = "stopped" // it is not whole, and says so or is not written any more
	broken   state = "broken"  // it cannot be read
)

// quiet is how long nothing may be written for a run to count as under way. The
// probe writes every few seconds while load runs; the longest silence is that of
// a slow system that starts.
const quiet = 2 * time.Minute

// maxFile bounds what is read of a run's small files, so that a wrong file does
// not fill the memory.
const maxFile = 16 << 20

// stamp tells whether a file is the one that was read. A file that is not there
// has the zero stamp.
type stamp struct {
	at   time.Time
	size int64
}

func stampOf(root *os.Root, name string) stamp {
	info, err := root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return stamp{}
	}
	return stamp{info.ModTime(), info.Size()}
}

// there says whether the file was.
func (s stamp) there() bool { return s != stamp{} }

// openRegular opens a file for reading if it is one: a pipe would keep us
// waiting, and a link is not raw data.
func openRegular(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is no ordinary file: %w", name, fs.ErrNotExist)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, nil, err
	}
	return f, info, nil
}

// readSmall reads a whole small file.
func readSmall(root *os.Root, name string) ([]byte, error) {
	f, info, err := openRegular(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s has %d MiB; at most %d are read", name, info.Size()>>20, maxFile>>20)
	}
	return io.ReadAll(io.LimitReader(f, maxFile))
}

func readJSON(root *os.Root, name string, v any) error {
	data, err := readSmall(root, name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}

// readManifest reads what a run set out to do. Names in it become paths, so
// those that are none are refused.
func readManifest(root *os.Root) (archive.Manifest, error) {
	var m archive.Manifest
	if err := readJSON(root, archive.ManifestFile, &m); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return m, errors.New("there is no run.json in it: it was stopped before it began")
		}
		return m, err
	}
	if m.Schema != archive.Schema {
		return m, fmt.Errorf("it has the format %q; this version reads %q", m.Schema, archive.Schema)
	}
	for _, p := range m.Trials {
		if !fs.ValidPath(p.Dir()) || strings.ContainsAny(p.Variant, "/\x00") {
			return m, fmt.Errorf("read run.json: %q cannot be the name of a variant", p.Variant)
		}
	}
	return m, nil
}

// progress is how many trials have ended, and the first that has not; nil if
// all have.
func progress(root *os.Root, m archive.Manifest) (ended int, current *archive.Planned) {
	for i := range m.Trials {
		if stampOf(root, path.Join(m.Trials[i].Dir(), archive.TrialFile)).there() {
			ended++
		} else if current == nil {
			current = &m.Trials[i]
		}
	}
	return ended, current
}

// lastWrite is when something of a run was written last.
func lastWrite(root *os.Root, current *archive.Planned) time.Time {
	var last time.Time
	see := func(name string) {
		if info, err := root.Lstat(name); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	see(".")
	see(archive.ManifestFile)
	see("trials")
	if current == nil {
		return last
	}
	for _, dir := range []string{current.Dir(), path.Join(current.Dir(), "logs")} {
		see(dir)
		entries, err := fs.ReadDir(root.FS(), dir)
		if err != nil {
			continue // it is not there yet
		}
		for _, e := range entries[:min(len(entries), 200)] {
			see(path.Join(dir, e.Name()))
		}
	}
	return last
}
