package archive

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"loadstone/block/spelling"
)

// NoRunError says that a text names no run, or not one alone.
type NoRunError struct{ error }

func noRunf(format string, args ...any) error { return NoRunError{fmt.Errorf(format, args...)} }

// PassedOver returns the names of the runs that Find passed over for the one in dir
// when text is latest: they are newer and have a trial, but are not whole.
func PassedOver(runs, text, dir string) []string {
	if back, ok := parseLatest(text); !ok || back > 0 {
		return nil
	}
	latest, _ := Whole(dir)
	names, err := Names(runs)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(names, func(name string) bool {
		part := filepath.Join(runs, name)
		started, whole := Whole(part)
		return whole || !started.After(latest) || Ended(part) == 0
	})
}

// Find finds the directory of a run: a path, a name in the directory of
// runs, the beginning of one, or latest, latest~1 and so on. Its error is a [NoRunError] if text names none,
// or several.
func Find(runs, text string) (string, error) {
	if back, ok := parseLatest(text); ok {
		return latestRun(runs, text, back)
	}
	if info, err := os.Stat(text); err == nil && info.IsDir() {
		return text, nil
	}
	names, err := Names(runs)
	if err != nil {
		return "", err
	}
	var found []string
	for _, n := range names {
		if n == text {
			return filepath.Join(runs, n), nil
		}
		if strings.HasPrefix(n, text) {
			found = append(found, n)
		}
	}
	switch {
	case len(found) == 1:
		return filepath.Join(runs, found[0]), nil
	case len(found) > 1:
		return "", noRunf("%s is the beginning of %d runs in %s: %s", spelling.Quote(text), len(found), runs, strings.Join(found[:min(5, len(found))], ", "))
	case len(names) == 0:
		return "", noRunf("there is no run %s, neither in %s nor as a directory; run an experiment first, or write the path of a run", spelling.Quote(text), runs)
	}
	last := slices.Clone(names[max(0, len(names)-20):])
	return "", noRunf("there is no run %s; %s", spelling.Quote(text), spelling.ChooseName(text, append([]string{"latest"}, last...)))
}

// parseLatest reads latest and latest~N.
func parseLatest(text string) (back int, ok bool) {
	if text == "latest" {
		return 0, true
	}
	number, ok := strings.CutPrefix(text, "latest~")
	if !ok {
		return 0, false
	}
	back, err := strconv.Atoi(number)
	return back, err == nil && back >= 0
}

// latestRun is the newest whole run but so many. Runs that were stopped, and
// those of another version's format, are passed over.
func latestRun(runs, text string, back int) (string, error) {
	names, err := Names(runs)
	if err != nil {
		return "", err
	}
	type whole struct {
		dir     string
		started int64
	}
	var all []whole
	for _, n := range names {
		dir := filepath.Join(runs, n)
		if started, ok := Whole(dir); ok {
			all = append(all, whole{dir, started.UnixNano()})
		}
	}
	slices.SortStableFunc(all, func(a, b whole) int { return cmp.Compare(b.started, a.started) })
	if back >= len(all) {
		return "", noRunf("there is no run %s: %s has %d whole runs", text, runs, len(all))
	}
	return all[back].dir, nil
}

// Names are the directories in the directory of runs, by name, which is by
// time. A directory that is not there has no runs.
func Names(runs string) ([]string, error) {
	entries, err := os.ReadDir(runs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look for runs: %w", err)
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out, nil
}
