package pgstore

import (
	"errors"
	"testing"
	"time"

	"loadstone/block/servertest"
	"loadstone/system/results"
	"loadstone/system/results/resultstest"
)

// drawing is a source that draws its codes.
type drawing struct{ resultstest.List }

func (drawing) Draws() bool { return true }

// A store learns what the database holds, at which revision, who was corrected and when
// results are out; it keeps what it knows while the database is away, and serves nothing
// while the database says that it holds nothing whole.
func TestState(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t)
	url := server.Database(t)
	source := resultstest.Generator(t, 1, 100)
	fill(t, url, source)
	w := lazy(t, url)
	known := func(what string, ok func(results.State) bool) (state results.State) {
		t.Helper()
		poll(t, what, func() bool {
			now, holds := w.State()
			state = now
			return holds && ok(now)
		})
		return state
	}
	first := known("the first answer", func(results.State) bool { return true })
	if first.Set == 0 || first.Revision != 0 || !first.Published || !first.PublishAt.IsZero() {
		t.Errorf("got %+v, want a data set that is out and was never corrected", first)
	}
	student := source.Student(7)
	for _, name := range []string{"Once", "Twice"} {
		student.Name = name
		if _, err := Correct(t.Context(), url, resultstest.Corrections(student)); err != nil {
			t.Fatal(err)
		}
	}
	corrected := known("the revision", func(s results.State) bool { return s.Revision == 2 })
	if corrected.Set != first.Set || corrected.Fresh(7, 1) || !corrected.Fresh(7, 2) || !corrected.Fresh(8, 0) {
		t.Errorf("got %+v, want the same data set, in which student 7 was corrected by revision 2", corrected)
	}
	execute(t, url, "UPDATE results.data_set SET publish_at = now() + interval '1 hour'")
	known("the embargo", func(s results.State) bool { return !s.Published && time.Until(s.PublishAt) > 0 })
	execute(t, url, "UPDATE results.data_set SET publish_at = now()")
	known("its end", func(s results.State) bool { return s.Published })

	server.Kill()
	poll(t, "that it is away", func() bool { return !w.Ready() })
	known("what was known", func(s results.State) bool { return s.Revision == 2 && s.Published })
	server.Start()
	poll(t, "that it is back", w.Ready)

	nothing := func(what string) {
		t.Helper()
		poll(t, what, func() bool { _, holds := w.State(); return !holds })
		if _, err := w.Lookup(t.Context(), 7); !errors.Is(err, results.ErrUnavailable) || w.Ready() {
			t.Errorf("%s: got %v, ready %t; want it unavailable", what, err, w.Ready())
		}
	}
	execute(t, url, "UPDATE results.data_set SET completed_at = NULL")
	nothing("a data set that is not whole")
	execute(t, url, "DROP SCHEMA results CASCADE")
	nothing("no tables")
	fill(t, url, source)
	again := known("the same, filled anew", func(s results.State) bool { return s.Revision == 0 })
	if again.Set == first.Set || !again.Fresh(7, 0) {
		t.Errorf("got %+v, want another data set than %x, never corrected", again, first.Set)
	}
	poll(t, "a look-up", func() bool { _, err := w.Lookup(t.Context(), 7); return err == nil })
}

// Fillings from a source that draws its codes differ, and an interrupted one keeps its
// identity.
func TestIdentity(t *testing.T) {
	t.Parallel()
	source := drawing{resultstest.List{Description: resultstest.Generator(t, 1, 3).Meta()}}
	source.Description.Fingerprint = "csv 1"
	for student, err := range resultstest.Generator(t, 1, 3).All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		source.Students = append(source.Students, student)
	}
	one, other := filled(t, source), filled(t, source)
	a, b := openSource(t, one), openSource(t, other)
	if a.Meta().Same(b.Meta()) || a.State().Set == b.State().Set || a.Meta().Origin != source.Description.Origin {
		t.Errorf("got %+v and %+v, want two data sets of one origin", a.Meta(), b.Meta())
	}
	// The tables of the version before know nothing of it, nor that the codes were drawn.
	execute(t, one, "UPDATE results.data_set SET fingerprint = 'csv 1', completed_at = NULL;"+sixthVersion)
	for range 2 {
		if err := Upgrade(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Seed(t.Context(), one, source, nil); err != nil {
		t.Errorf("an import that the version before began: got %v", err)
	}
	if seeded, err := Seed(t.Context(), one, source, nil); err != nil || !seeded.Already {
		t.Errorf("again: got %+v and %v, want that it is there", seeded, err)
	}
	after := openSource(t, one)
	if got := after.Meta(); got.Same(a.Meta()) || got.Same(source.Description) || !results.FilledFrom(got, source.Description) || after.State().Set == 0 {
		t.Errorf("got %+v, want it to be known as one import of several", got)
	}
	if err := Upgrade(t.Context(), servertest.Database(t)); err != nil {
		t.Errorf("an empty database: got %v, want nil", err)
	}
}
