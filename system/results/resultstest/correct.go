package resultstest

import (
	"errors"
	"strings"
	"testing"

	"loadstone/block/dataset"
	"loadstone/system/results"
)

// Corrector is a store that can be corrected.
type Corrector struct {
	Correct func(results.Corrections) (results.Corrected, error)
	// Open opens it anew, as a store and as a source. Whoever made the Corrector
	// closes them.
	Open func() (results.Store, results.Correctable)
	// Audit counts the entries of the audit.
	Audit func() int64
}

// Corrections are those that make the students what is given.
func Corrections(students ...results.Student) results.Corrections {
	c := results.Corrections{By: "tester", Source: "test"}
	for _, s := range students {
		c.List = append(c.List, results.Correction{Student: s})
	}
	return c
}

// OtherStream is the student in the other stream, with other marks.
func OtherStream(s results.Student) results.Student {
	s.Stream = map[results.Stream]results.Stream{results.Natural: results.Social, results.Social: results.Natural}[s.Stream]
	for i := range s.Marks {
		s.Marks[i] = (s.Marks[i] + i + 1) % (results.MaxMark + 1)
	}
	return s
}

// Correct tests the correction of a store that holds the source.
func Correct(t *testing.T, fill func(t *testing.T, source dataset.Source[results.Student]) Corrector) {
	t.Helper()
	source := Generator(t, 12, 50)
	suite := correctSuite{source, fill}
	t.Run("changes whom it names and nobody else", suite.changes)
	t.Run("does nothing twice", suite.repeats)
	t.Run("keeps what it does not name", suite.keeps)
	t.Run("is refused whole", suite.refuses)
}

type correctSuite struct {
	source *results.Generator
	fill   func(t *testing.T, source dataset.Source[results.Student]) Corrector
}

// check compares everybody with the source, but for those who were changed.
func (s correctSuite) check(t *testing.T, c Corrector, changed ...results.Student) {
	t.Helper()
	want := map[int64]results.Student{}
	for id := int64(1); id <= s.source.Meta().Count; id++ {
		want[id] = s.source.Student(id)
	}
	for _, student := range changed {
		want[student.ID] = student
	}
	store, source := c.Open()
	for id, student := range want {
		page, err := store.Lookup(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		CheckPage(t, page, &student)
	}
	Source(t, source, want)
	if got, want := source.Meta(), s.source.Meta(); got != want {
		t.Errorf("meta: got %+v, want %+v as before", got, want)
	}
	if got := source.Revised(); got.Same(s.source.Meta()) != (len(changed) == 0) || got.Count != s.source.Meta().Count {
		t.Errorf("revised: got %+v after %d changes of %+v", got, len(changed), s.source.Meta())
	}
	if got := results.Current(source).Meta(); got != source.Revised() {
		t.Errorf("current: got %+v, want %+v", got, source.Revised())
	}
}

func (s correctSuite) changes(t *testing.T) {
	t.Parallel()
	c := s.fill(t, s.source)
	s.check(t, c)
	stream, all, same := OtherStream(s.source.Student(7)), OtherStream(s.source.Student(8)), s.source.Student(9)
	all.Name, all.School, all.Region, all.Code, all.PassMark = "Somebody Else", "A New School", "A New Region", "NEW-CODE-1", 1
	all.BirthDate = results.Date{Year: 2000, Month: 2, Day: 29}
	moved := s.source.Student(10)
	moved.School, moved.Region = s.source.Student(11).School, s.source.Student(11).Region
	done, err := c.Correct(Corrections(moved, all, same, stream))
	if err != nil || done.Revision != 1 || done.Changed != 3 || len(done.Students) != 4 || done.Students[0] != stream || done.Students[1] != all {
		t.Fatalf("got %+v and %v, want revision 1 with 3 changes of 4", done, err)
	}
	s.check(t, c, stream, all, moved)
	if got := c.Audit(); got != 3 {
		t.Errorf("the audit has %d entries, want 3", got)
	}
}

func (s correctSuite) repeats(t *testing.T) {
	t.Parallel()
	c := s.fill(t, s.source)
	student := OtherStream(s.source.Student(7))
	var fingerprint [3]string
	for i, want := range [...]int{1, 0, 0} {
		done, err := c.Correct(Corrections(student))
		if err != nil || done.Changed != want || done.Revision != 1 || len(done.Students) != 1 || done.Students[0] != student {
			t.Errorf("time %d: got %+v and %v, want %d changes and revision 1", i+1, done, err, want)
		}
		_, source := c.Open()
		fingerprint[i] = source.Revised().Fingerprint
	}
	if fingerprint[0] != fingerprint[1] || fingerprint[0] == s.source.Meta().Fingerprint || c.Audit() != 1 {
		t.Errorf("got fingerprints %q and %d audits, want one of each", fingerprint, c.Audit())
	}
	s.check(t, c, student)
	// And back, which is a revision of its own and not the one before.
	done, err := c.Correct(Corrections(s.source.Student(7)))
	if err != nil || done.Revision != 2 {
		t.Errorf("back: got %+v and %v, want revision 2", done, err)
	}
}

func (s correctSuite) keeps(t *testing.T) {
	t.Parallel()
	c := s.fill(t, s.source)
	want := s.source.Student(7)
	want.Name = "Corrected"
	named := want
	named.Code, named.PassMark = "NOT-THIS-1", 1
	corrections := Corrections(named)
	corrections.List[0].KeepCode, corrections.List[0].KeepPassMark = true, true
	if _, err := c.Correct(corrections); err != nil {
		t.Fatal(err)
	}
	s.check(t, c, want)
}

func (s correctSuite) refuses(t *testing.T) {
	t.Parallel()
	c := s.fill(t, s.source)
	good, unknown, bad := OtherStream(s.source.Student(7)), s.source.Student(8), s.source.Student(9)
	unknown.ID, bad.Name = 1_000_000, ""
	_, err := c.Correct(Corrections(good, unknown))
	var missing *results.UnknownStudentsError
	if !errors.As(err, &missing) || len(missing.IDs) != 1 || missing.IDs[0] != unknown.ID || !errors.Is(err, results.ErrNotFound) {
		t.Errorf("a student who is not there: got %v", err)
	}
	if _, err := c.Correct(Corrections(good, bad)); err == nil || !strings.Contains(err.Error(), "student with id 9 is not valid") {
		t.Errorf("a student who is not valid: got %v", err)
	}
	anonymous := Corrections(good)
	anonymous.By = ""
	if _, err := c.Correct(anonymous); err == nil || !strings.Contains(err.Error(), "who corrects") {
		t.Errorf("nobody: got %v", err)
	}
	s.check(t, c)
}
