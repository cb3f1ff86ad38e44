package experiment

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"loadstone/lab/load/feed"
)

// document is a file that was read: what it says, and where.
type document struct {
	file    string
	source  []byte
	root    *node
	files   []reference
	columns []columnUse
	calls   []callUse
}

func (d *decoder) document(root *node, data []byte) document {
	return document{file: d.file, source: slices.Clone(data), root: root, files: d.files, columns: d.columns, calls: d.calls}
}

// MissingFileError is a file that was to be read and is not there.
type MissingFileError struct {
	Path, What string // What it was to be: "an experiment file"
	directory  bool   // there is a directory of its name
	err        error
}

func (e *MissingFileError) Error() string {
	if e.directory {
		return fmt.Sprintf("%s is a directory; write the path of %s", e.Path, e.What)
	}
	return fmt.Sprintf("there is no file %s; write the path of %s", e.Path, e.What)
}

// Unwrap returns the operating system's error.
func (e *MissingFileError) Unwrap() error { return e.err }

// unreadable is the error of a file that could not be read.
func unreadable(path, what string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &MissingFileError{Path: path, What: what, err: err}
	}
	if info, failed := os.Stat(path); failed == nil && info.IsDir() {
		return &MissingFileError{Path: path, What: what, directory: true, err: err}
	}
	return fmt.Errorf("read %s: %w", what, err)
}

// readFile reads a file up to a little more than may be parsed.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	return data, errors.Join(err, f.Close())
}

// Source returns the file as it was read.
func (d *document) Source() []byte { return slices.Clone(d.source) }

// Position returns the place of what a path of keys leads to, such as
// "variants", "redis": that of the value if it is a scalar, else that of its
// key. Where the path leads nowhere it is the place of its last key that is
// there. In a list the key is an index from 0. A variant that a sweep made has
// the place of the sweep.
func (d *document) Position(path ...string) (file string, line, column int) {
	path = d.written(path)
	n, place := d.root, d.root
	for _, key := range path {
		p, ok := n.pair(key)
		if i, err := strconv.Atoi(key); err == nil && n.kind == list && i >= 0 && i < len(n.items) {
			p, ok = pair{key: n.items[i], value: n.items[i]}, true
		}
		if !ok {
			break
		}
		n, place = p.value, p.key
		if n.kind != mapping && n.kind != list && n.kind != null {
			place = n
		}
	}
	return d.file, place.line, place.col
}

// written is the path to what a variant was made of.
func (d *document) written(path []string) []string {
	_, swept := d.root.pair("sweep")
	if !swept || len(path) < 2 || path[0] != "variants" {
		return path
	}
	if variants, ok := d.root.pair("variants"); ok {
		if _, ok := variants.value.pair(path[1]); ok {
			return path
		}
	}
	return []string{"sweep"}
}

// ErrorAt returns an error about what a path of keys leads to (see Position).
func (d *document) ErrorAt(message string, path ...string) *Error {
	file, line, column := d.Position(path...)
	return &Error{File: file, Line: line, Column: column, Message: message}
}

// reference is a file that the experiment names.
type reference struct {
	n    *node
	path string // from where the program runs
	what string
}

// columnUse is a placeholder that names a column of a feed.
type columnUse struct {
	n                           *node
	scenario, feed, placeholder string
}

// checkFiles looks whether the files that a load names are there and can be
// used. The error is an [Errors].
func (d *document) checkFiles(l *Offer) error {
	found := &decoder{file: d.file}
	missing := make(map[string]bool)
	for _, f := range d.files {
		info, err := os.Stat(f.path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			found.errorf(f.n, "there is no file %s; write the path of %s, relative to this file", f.path, f.what)
		case err != nil:
			found.errorf(f.n, "%s cannot be read (%v); write the path of %s", f.path, err, f.what)
		case info.IsDir() && f.what == composeFile:
			found.errorf(f.n, "%s is a directory; write the path of the Compose file in it, such as %s", f.path, inDirectory(f.path, f.n.text))
		case info.IsDir():
			found.errorf(f.n, "%s is a directory; write the path of %s", f.path, f.what)
		default:
			continue
		}
		missing[f.path] = true
	}
	if !slices.ContainsFunc(l.Proto, func(path string) bool { return missing[path] }) {
		d.describedCalls(found, l.Proto)
	}
	for i := range l.Scenarios {
		s := &l.Scenarios[i]
		for name, f := range s.Feed {
			if rows := f.rows(); rows != nil && !missing[rows.File] {
				d.checkRows(found, s.Name, name, f)
			}
		}
	}
	return found.errs.sorted()
}

// checkRows reads the file of a feed, as the load generator will, and looks for
// the columns that placeholders name.
func (d *document) checkRows(found *decoder, scenario, name string, f Feed) {
	set, err := feed.Open(0, scenario, map[string]feed.Feed{name: f.resolve()})
	if err != nil {
		found.errs = append(found.errs, d.ErrorAt(oneLine(err.Error()), "load", "scenarios", scenario, "feed", name))
		return
	}
	for _, use := range d.columns {
		if use.scenario != scenario || use.feed != name {
			continue
		}
		if _, err := set.Find(use.placeholder); err != nil {
			found.errorf(use.n, "%s", strings.Replace(err.Error(), ": write ", "; write ", 1))
		}
	}
}
