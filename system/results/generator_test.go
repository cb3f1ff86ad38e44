package results

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

func newGenerator(tb testing.TB, seed uint64, count int64) *Generator {
	tb.Helper()
	generator, err := NewGenerator(seed, count)
	if err != nil {
		tb.Fatal(err)
	}
	return generator
}

func TestGeneratorRefusesBadCounts(t *testing.T) {
	t.Parallel()
	for _, count := range []int64{0, -1, math.MinInt64, MaxID + 1} {
		if _, err := NewGenerator(1, count); err == nil || !strings.Contains(err.Error(), fmt.Sprint(count)) {
			t.Errorf("count %d: got %v, want an error that names it", count, err)
		}
	}
}

func TestAllIsInOrderAndDependsOnSeedAndIDOnly(t *testing.T) {
	t.Parallel()
	const count = 3*2048 + 17 // several chunks of dataset.Generate
	generator, larger := newGenerator(t, 42, count), newGenerator(t, 42, 10*count)
	id := int64(0)
	for student, err := range generator.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		id++
		if student.ID != id {
			t.Fatalf("got id %d, want %d", student.ID, id)
		}
		if got, want := student, larger.Student(id); got != want {
			t.Fatalf("student %d: got %+v, want %+v", id, got, want)
		}
		if err := student.Validate(); err != nil {
			t.Fatalf("student %d: %v", id, err)
		}
	}
	if id != count {
		t.Errorf("got %d students, want %d", id, count)
	}
}

// TestGeneratedStudentIsPinned fails when a seed gives other students than
// before: raise generatorVersion, else old data sets pass for new ones.
func TestGeneratedStudentIsPinned(t *testing.T) {
	t.Parallel()
	student := newGenerator(t, 1, 1).Student(1)
	const want = `{"id":1,"name":"Alem Alemu Tesfaye","sex":"female","school":"Debre Tabor Ewket Secondary School",` +
		`"region":"Amhara","birth_date":"2007-04-22","stream":"social","marks":{"english":45,"mathematics":53,` +
		`"geography":43,"history":59,"economics":44,"aptitude":40,"civics":69},"total":353,"average":50.4,` +
		`"pass_mark":350,"passed":true} NHD10Z6635JS`
	if got := fmt.Sprintf("%s %s", student.AppendJSON(nil), student.Code); got != want {
		t.Errorf("student 1 of seed 1\n got %s\nwant %s", got, want)
	}
}

func TestSeedsAndIDsGiveDifferentStudents(t *testing.T) {
	t.Parallel()
	one, two := newGenerator(t, 1, 100), newGenerator(t, 2, 100)
	same := 0
	for id := int64(1); id <= 100; id++ {
		a, b := one.Student(id), two.Student(id)
		if a.Code == b.Code || a.Name == b.Name && a.Marks == b.Marks {
			same++
		}
	}
	if same > 0 {
		t.Errorf("%d of 100 students are the same under two seeds", same)
	}
	if one.Meta().Same(two.Meta()) || one.Meta().Same(newGenerator(t, 1, 101).Meta()) {
		t.Error("different data sets have the same fingerprint")
	}
	if !one.Meta().Same(newGenerator(t, 1, 100).Meta()) {
		t.Error("the same data set has two fingerprints")
	}
}

func TestAllStopsWithItsConsumerAndItsContext(t *testing.T) {
	t.Parallel()
	generator := newGenerator(t, 1, MaxID) // endless for this purpose
	for student, err := range generator.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if student.ID == 1000 {
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for student, err := range generator.All(ctx) {
		if student.ID == 10 {
			cancel()
		}
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("after cancel: got %v, want context.Canceled", last)
	}
}

// tally gathers what the distribution tests judge.
type tally struct {
	n                       int
	female, natural, passed float64
	regions, schools        map[string]float64
	ages                    map[int]float64
	codes, names            map[string]bool
	sum, squares            map[Subject]float64
	sat                     map[Subject]float64
	products                float64 // of the standardised English and mathematics marks
	clipped                 float64
}

func newTally(students []Student) tally {
	t := tally{
		n: len(students), regions: map[string]float64{}, schools: map[string]float64{}, ages: map[int]float64{},
		codes: map[string]bool{}, names: map[string]bool{}, sum: map[Subject]float64{}, squares: map[Subject]float64{},
		sat: map[Subject]float64{},
	}
	for i := range students {
		t.add(&students[i])
	}
	return t
}

func (t *tally) add(s *Student) {
	share := 1 / float64(t.n)
	if s.Sex == Female {
		t.female += share
	}
	if s.Stream == Natural {
		t.natural += share
	}
	if s.Passed() {
		t.passed += share
	}
	t.regions[s.Region] += share
	t.schools[s.Region+"/"+s.School] += share
	t.ages[age(s.BirthDate)] += share
	t.codes[s.Code] = true
	t.names[s.Name] = true
	z := [SubjectsPerStream]float64{}
	for i, subject := range s.Stream.Subjects() {
		mark := float64(s.Marks[i])
		t.sat[subject]++
		t.sum[subject] += mark
		t.squares[subject] += mark * mark
		z[i] = (mark - float64(subjectLevels[subject].mean)) / float64(subjectLevels[subject].spread)
		if s.Marks[i] == 0 || s.Marks[i] == MaxMark {
			t.clipped += share / SubjectsPerStream
		}
	}
	t.products += z[0] * z[1] * share
}

// age on the day of the exam.
func age(born Date) int {
	years := examDay.Year() - int(born.Year)
	if time.Month(born.Month) > examDay.Month() ||
		time.Month(born.Month) == examDay.Month() && int(born.Day) > examDay.Day() {
		years--
	}
	return years
}

// problems lists everything in which the students differ from what the generator
// promises.
func (t *tally) problems() (problems []string) {
	near := func(what string, got, want, tolerance float64) {
		if math.Abs(got-want) > tolerance {
			problems = append(problems, fmt.Sprintf("%s: got %.4f, want %.4f ± %.4f", what, got, want, tolerance))
		}
	}
	near("female", t.female, femalePermille/1000.0, 0.01)
	near("natural stream", t.natural, 0.57, 0.01)
	near("passed", t.passed, 0.38, 0.03)
	near("correlation of English and mathematics", t.products, 0.64, 0.03)
	near("marks at 0 or 100", t.clipped, 0.003, 0.003)
	near("distinct codes", float64(len(t.codes)), float64(t.n), 0)
	if len(t.names) < t.n*3/4 {
		problems = append(problems, fmt.Sprintf("distinct names: got %d of %d", len(t.names), t.n))
	}
	near("schools with a student", float64(len(t.schools)), schoolCount, 10)
	population := 0
	for i := range regions {
		population += regions[i].population
	}
	for i := range regions {
		near(regions[i].name, t.regions[regions[i].name], float64(regions[i].population)/float64(population), 0.01)
	}
	for n, permille := range birthPermille {
		near(fmt.Sprintf("age %d", youngest+n), t.ages[youngest+n], float64(permille)/1000, 0.01)
	}
	near("ages", float64(len(t.ages)), float64(len(birthPermille)), 0)
	for _, subject := range Subjects() {
		mean := t.sum[subject] / t.sat[subject]
		level := subjectLevels[subject]
		near(subject.String()+" mean", mean, float64(level.mean), 0.5)
		near(subject.String()+" spread", math.Sqrt(t.squares[subject]/t.sat[subject]-mean*mean), float64(level.spread), 0.5)
	}
	return problems
}

func draw(t *testing.T, count int64) []Student {
	t.Helper()
	students := make([]Student, 0, count)
	for student, err := range newGenerator(t, 7, count).All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		students = append(students, student)
	}
	return students
}

func TestDistributions(t *testing.T) {
	t.Parallel()
	sample := newTally(draw(t, 40_000))
	for _, problem := range sample.problems() {
		t.Error(problem)
	}
}

// TestDistributionChecksCanFail spoils one property at a time and expects the
// check to notice.
func TestDistributionChecksCanFail(t *testing.T) {
	t.Parallel()
	students := draw(t, 40_000)
	for name, spoil := range map[string]func(i int, s *Student){
		"female":           func(i int, s *Student) { s.Sex = Sex(1 + i%2) },
		"natural stream":   func(i int, s *Student) { s.Stream = Stream(1 + i%2) },
		"mathematics mean": func(_ int, s *Student) { s.Marks[1] = min(s.Marks[1]+3, MaxMark) },
		"correlation":      func(i int, s *Student) { s.Marks[0] = students[(i+1)%len(students)].Marks[0] },
		"distinct codes":   func(i int, s *Student) { s.Code = students[i/2].Code },
		"age":              func(i int, s *Student) { s.BirthDate.Year -= uint16(i % 2) },
		"Afar":             func(_ int, s *Student) { s.Region = "Afar" },
		"spread":           func(_ int, s *Student) { s.Marks[6] = 56 },
		"names":            func(i int, s *Student) { s.Name = students[i/3].Name },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spoiled := append([]Student(nil), students...)
			for i := range spoiled {
				spoil(i, &spoiled[i])
			}
			sample := newTally(spoiled)
			if problems := strings.Join(sample.problems(), "\n"); !strings.Contains(problems, name) {
				t.Errorf("got %q, want a problem with %q", problems, name)
			}
		})
	}
}

func TestSchoolNamesAreDistinct(t *testing.T) {
	t.Parallel()
	table := newSchoolTable()
	if got := len(table.schools); got != schoolCount {
		t.Errorf("got %d schools, want %d", got, schoolCount)
	}
	seen := map[string]bool{}
	for _, school := range table.schools {
		if seen[school.name] {
			t.Errorf("two schools are called %q", school.name)
		}
		seen[school.name] = true
	}
}

func TestNameListsHaveNoRepeats(t *testing.T) {
	t.Parallel()
	for list, names := range map[string][]string{"female": femaleNames, "male": maleNames, "elder": elderNames} {
		seen := map[string]bool{}
		for _, name := range names {
			if seen[name] {
				t.Errorf("%s names: %q stands twice", list, name)
			}
			seen[name] = true
		}
		if len(names) < 60 {
			t.Errorf("%s names: got %d, want at least 60", list, len(names))
		}
	}
}

func TestRandomCode(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		code := RandomCode()
		if len(code) != codeLength || strings.Trim(code, codeAlphabet) != "" || checkCode(code) != nil {
			t.Fatalf("got %q, want %d characters of %s", code, codeLength, codeAlphabet)
		}
		if seen[code] {
			t.Fatalf("the code %s came twice", code)
		}
		seen[code] = true
	}
}

// BenchmarkGenerate measures one student on one core.
func BenchmarkGenerate(b *testing.B) {
	generator := newGenerator(b, 1, DefaultCount)
	b.ReportAllocs()
	id := int64(0)
	for b.Loop() {
		id++
		if student := generator.Student(id); student.ID != id {
			b.Fatal("wrong student")
		}
	}
}

// BenchmarkGenerateAll measures one student with all cores at work.
func BenchmarkGenerateAll(b *testing.B) {
	b.ReportAllocs()
	for _, err := range newGenerator(b, 1, int64(b.N)).All(b.Context()) {
		if err != nil {
			b.Fatal(err)
		}
	}
}
