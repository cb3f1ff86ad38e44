package pgstore

import (
	"context"
	"errors"
	"os"
	"testing"

	"loadstone/block/dataset"
	"loadstone/system/results"
	"loadstone/system/results/bundle"
	"loadstone/system/results/resultstest"
)

var _ bundle.Indexed = (*Source)(nil)

// plain is a source that has no index.
type plain struct {
	dataset.Source[results.Student]
}

// TestBundle: the bundle that is read through the index is, byte for byte, that of
// a source which is read whole; and it reads no more than the school.
func TestBundle(t *testing.T) {
	t.Parallel()
	generator := resultstest.Generator(t, 4, 5000)
	source := openSource(t, filled(t, generator))
	student := generator.Student(17)
	write := func(school string, from dataset.Source[results.Student]) (csv, html string, total int64) {
		t.Helper()
		cfg := bundle.Config{School: school, Directory: t.TempDir(), Address: "https://r.example", Progress: func(_, of int64) { total = of }}
		b, err := bundle.Write(t.Context(), cfg, from)
		if err != nil {
			t.Fatal(err)
		}
		table, tableErr := os.ReadFile(b.CSV)
		slips, slipsErr := os.ReadFile(b.HTML)
		if err := errors.Join(tableErr, slipsErr); err != nil {
			t.Fatal(err)
		}
		if total != b.Students && total != generator.Meta().Count {
			t.Errorf("read %d students for a school of %d", total, b.Students)
		}
		return string(table), string(slips), total
	}
	csv, html, total := write(student.School, source)
	wantCSV, wantHTML, _ := write(student.School, plain{source})
	if csv != wantCSV || html != wantHTML || total >= 100 {
		t.Errorf("read %d students, and got\n%s\nwant\n%s", total, csv, wantCSV)
	}
	var texts []string
	for _, from := range []dataset.Source[results.Student]{source, plain{source}} {
		_, err := bundle.Write(t.Context(), bundle.Config{School: student.School + "x", Directory: t.TempDir(), Address: "x"}, from)
		if _, ok := errors.AsType[*bundle.UnknownSchoolError](err); !ok {
			t.Fatalf("got %v, want an UnknownSchoolError", err)
		}
		texts = append(texts, err.Error())
	}
	if texts[0] != texts[1] {
		t.Errorf("got %s, want %s", texts[0], texts[1])
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range source.OfSchool(ctx, student.Region, student.School) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
	}
	if err := source.Schools(ctx, func(string, string, int64) bool { return true }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}
