package csvfile_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"loadstone/block/dataset"
	"loadstone/system/results"
	"loadstone/system/results/csvfile"
	"loadstone/system/results/resultstest"
)

// table is the source as CSV, without the columns.
func table(t *testing.T, source dataset.Source[results.Student], without ...string) string {
	t.Helper()
	var text bytes.Buffer
	if err := csvfile.Write(t.Context(), &text, source, nil); err != nil {
		t.Fatal(err)
	}
	columns := csvfile.Columns()
	var out strings.Builder
	for line := range strings.Lines(text.String()) {
		fields := strings.Split(strings.TrimSpace(line), ",")
		var left []string
		for i, field := range fields {
			if !strings.Contains(strings.Join(without, " "), columns[i].Name) {
				left = append(left, field)
			}
		}
		fmt.Fprintln(&out, strings.Join(left, ","))
	}
	return out.String()
}

func TestReadCorrections(t *testing.T) {
	t.Parallel()
	source := resultstest.Generator(t, 1, 3)
	for _, keep := range []bool{false, true} {
		var without []string
		if keep {
			without = []string{"code", "pass_mark"}
		}
		c, err := csvfile.ReadCorrections(t.Context(), "standard input", strings.NewReader(table(t, source, without...)))
		if err != nil {
			t.Fatal(err)
		}
		if len(c.List) != 3 || !strings.HasPrefix(c.Origin, "standard input, sha256 ") {
			t.Fatalf("got %d of %q, want 3", len(c.List), c.Origin)
		}
		for i, got := range c.List {
			want := results.Correction{Student: source.Student(int64(i + 1)), KeepCode: keep, KeepPassMark: keep}
			if keep {
				want.Student.Code = got.Student.Code
			}
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		}
		unknown := c.Unknown(&results.UnknownStudentsError{IDs: []int64{2}})
		if !errors.Is(unknown, results.ErrInput) || !strings.Contains(unknown.Error(), "standard input:3: id is 2, which no student has") {
			t.Errorf("got %v, want line 3", unknown)
		}
	}
}

func TestReadCorrectionsRefuses(t *testing.T) {
	t.Parallel()
	one := table(t, resultstest.Generator(t, 1, 1))
	header, row, _ := strings.Cut(one, "\n")
	for name, c := range map[string]struct{ text, want string }{
		"nothing":       {"", "is empty"},
		"a header only": {header + "\n", "no students"},
		"one twice":     {one + row, "f.csv:3: id is 1, as on line 2"},
		"a bad row":     {one + "x" + row, "f.csv:3: id is"},
		"too many":      {"", "more than 100000 students"},
	} {
		if name == "too many" { // each of another id
			var text strings.Builder
			text.WriteString(header + "\n")
			for id := range csvfile.MaxCorrections + 1 {
				fmt.Fprintf(&text, "%d%s", id+1, row[1:])
			}
			c.text = text.String()
		}
		_, err := csvfile.ReadCorrections(t.Context(), "f.csv", strings.NewReader(c.text))
		if !errors.Is(err, results.ErrInput) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
