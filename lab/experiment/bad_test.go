package experiment_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loadstone/lab/experiment"
)

var update = flag.Bool("update", false, "write what the tests produce as what they expect")

const (
	wantMark  = "# want "
	blindMark = "# schema: blind" // the schema cannot see what is wrong
)

// badFile is a file of testdata/bad: an experiment with something wrong in it,
// and in comments at its end every error that a user sees.
type badFile struct {
	path   string
	source string // without the expectations
	want   []string
	blind  bool
}

func badFiles(t *testing.T) []badFile {
	t.Helper()
	paths, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(paths) < 100 {
		t.Fatalf("found %d bad files (%v), want the whole table", len(paths), err)
	}
	files := make([]badFile, len(paths))
	for i, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f := badFile{path: path}
		var source strings.Builder
		for line := range strings.Lines(string(data)) {
			if want, ok := strings.CutPrefix(line, wantMark); ok {
				f.want = append(f.want, strings.TrimRight(want, "\n"))
			} else if strings.HasPrefix(line, blindMark) {
				f.blind = true
			} else {
				source.WriteString(line)
			}
		}
		f.source = source.String()
		files[i] = f
	}
	return files
}

func (f badFile) save(t *testing.T) {
	t.Helper()
	var b strings.Builder
	b.WriteString(f.source)
	for _, w := range f.want {
		b.WriteString(wantMark + w + "\n")
	}
	if f.blind {
		b.WriteString(blindMark + "\n")
	}
	if err := os.WriteFile(f.path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestParseExplainsEveryBadFile(t *testing.T) {
	t.Parallel()
	for _, f := range badFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(f.path), ".yaml"), func(t *testing.T) {
			t.Parallel()
			e, err := experiment.Parse("x.yaml", []byte(f.source))
			if err == nil {
				t.Fatalf("Parse(%s) = %+v, want an error", f.path, e)
			}
			var errs experiment.Errors
			if !errors.As(err, &errs) {
				t.Fatalf("Parse(%s) fails with %T, want %T", f.path, err, errs)
			}
			got := make([]string, len(errs))
			for i, e := range errs {
				got[i] = fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Message)
			}
			if *update {
				f.want = got
				f.save(t)
				return
			}
			if g, w := strings.Join(got, "\n"), strings.Join(f.want, "\n"); g != w {
				t.Errorf("Parse(%s) fails with\n%s\nwant\n%s", f.path, g, w)
			}
		})
	}
}

func TestParseReadsEveryGoodFile(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/good/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("found %d good files (%v), want some", len(paths), err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := experiment.Parse(path, data); err != nil {
			t.Errorf("Parse(%s) fails: %v", path, err)
		}
	}
}
