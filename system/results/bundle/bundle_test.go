package bundle_test

import (
	"context"
	"encoding/csv"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"loadstone/block/dataset"
	"loadstone/system/results"
	"loadstone/system/results/bundle"
	"loadstone/system/results/resultstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hostile is a student whose texts try to be something else.
func hostile() results.Student {
	return results.Student{
		ID: 999_999_999_999_999_999, Name: `=cmd|'/C calc'!A0 <script>alert("1")</script>`, Sex: results.Male,
		School: `../../etc/"Bole" & <b>Söhne</b>`, Region: "Addis Ababa", BirthDate: results.Date{Year: 2007, Month: 1, Day: 1},
		Stream: results.Social, PassMark: 350, Code: "abcd-efgh-1E45",
	}
}

func source(students ...results.Student) resultstest.List {
	return resultstest.List{
		Description: dataset.Meta{Origin: "test", Fingerprint: "test", Count: int64(len(students))}, Students: students,
	}
}

func config(t *testing.T, school string) bundle.Config {
	t.Helper()
	return bundle.Config{School: school, Directory: t.TempDir(), Address: "https://results.example/"}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestSchool(t *testing.T) {
	t.Parallel()
	const count = 5000
	generator := resultstest.Generator(t, 1, count)
	first := generator.Student(1)
	cfg := config(t, "  "+strings.ToUpper(first.School)+" ")
	var told int64
	cfg.Progress = func(done, _ int64) { told = done }
	cfg.Link = func(s *results.Student) (string, error) { return "https://cdn.example/" + s.Code + ".html", nil }
	got, err := bundle.Write(t.Context(), cfg, generator)
	if err != nil {
		t.Fatal(err)
	}
	if got.School != first.School || got.Region != first.Region || told != count {
		t.Errorf("got %+v and %d students read, want %s in %s and %d", got, told, first.School, first.Region, count)
	}
	rows, err := csv.NewReader(strings.NewReader(read(t, got.CSV))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	html := read(t, got.HTML)
	want := [][]string{{"id", "name", "stream", "code", "link"}}
	for id := int64(1); id <= count; id++ {
		s := generator.Student(id)
		inHTML := strings.Contains(html, bundle.Spaced(s.Code))
		if inHTML != (s.School == first.School) {
			t.Errorf("student %d of %s: in the page %v", id, s.School, inHTML)
		}
		if s.School == first.School {
			want = append(want, []string{rows[len(want)][0], s.Name, s.Stream.String(), bundle.Spaced(s.Code), "https://cdn.example/" + s.Code + ".html"})
		}
	}
	if len(rows) != len(want) || int64(len(rows)-1) != got.Students {
		t.Fatalf("got %d rows and %d students, want %d", len(rows)-1, got.Students, len(want)-1)
	}
	for i := range want {
		if strings.Join(rows[i], "|") != strings.Join(want[i], "|") {
			t.Errorf("row %d: got %q, want %q", i, rows[i], want[i])
		}
	}
	for _, path := range []string{got.CSV, got.HTML} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: got %v, %v, want a file that only its owner reads", path, info.Mode(), err)
		}
	}
}

func TestHostileTextsAreEscaped(t *testing.T) {
	t.Parallel()
	student := hostile()
	cfg := config(t, student.School)
	cfg.Link = func(*results.Student) (string, error) { return "javascript:alert(1)", nil }
	got, err := bundle.Write(t.Context(), cfg, source(student))
	if err != nil {
		t.Fatal(err)
	}
	html := read(t, got.HTML)
	for _, bad := range []string{"<script", "<b>", `href="javascript`} {
		if strings.Contains(html, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	for _, want := range []string{"&lt;script&gt;", "&lt;b&gt;Söhne", "abcd-efgh-1E45", "999999999999999999"} {
		if !strings.Contains(html, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if rows := read(t, got.CSV); !strings.Contains(rows, "'=cmd") {
		t.Errorf("got %q, want the formula disarmed", rows)
	}
	if filepath.Dir(got.CSV) != cfg.Directory {
		t.Errorf("got %s, want a file in %s", got.CSV, cfg.Directory)
	}
}

// Whatever a name is, no cell of the table begins as a formula does.
func TestFormulasAreDisarmed(t *testing.T) {
	t.Parallel()
	for start := range strings.SplitSeq("= + - @ ＝ ＋ － ＠ =-", " ") {
		for _, before := range []string{"", "Abeba;", "Abeba|"} {
			student := hostile()
			student.Name = before + start + "1+1"
			got, err := bundle.Write(t.Context(), config(t, student.School), source(student))
			if err != nil {
				t.Fatal(err)
			}
			rows, err := csv.NewReader(strings.NewReader(read(t, got.CSV))).ReadAll()
			if err != nil {
				t.Fatal(err)
			}
			// As a spreadsheet of another country sees them.
			for _, text := range strings.FieldsFunc(rows[1][1], func(char rune) bool { return strings.ContainsRune(";|", char) }) {
				if strings.ContainsRune("=+-@＝＋－＠", []rune(text)[0]) {
					t.Errorf("%q: got a cell %q", student.Name, text)
				}
			}
		}
	}
}

func TestUnknownSchool(t *testing.T) {
	t.Parallel()
	generator := resultstest.Generator(t, 1, 5000)
	want := generator.Student(1)
	for _, asked := range []string{strings.Replace(want.School, "School", "Shcool", 1), strings.TrimSuffix(want.School, " School")} {
		cfg := config(t, asked)
		_, err := bundle.Write(t.Context(), cfg, generator)
		var unknown *bundle.UnknownSchoolError
		if !errors.As(err, &unknown) {
			t.Fatalf("%q: got %v, want an UnknownSchoolError", asked, err)
		}
		if len(unknown.Near) != 5 || !strings.Contains(unknown.Near[0], want.School) || !strings.Contains(err.Error(), want.School) {
			t.Errorf("%q: got %v, want %q first", asked, err, want.School)
		}
		if names, err := os.ReadDir(cfg.Directory); err != nil || len(names) != 0 {
			t.Errorf("%q: got %v, %v, want no files", asked, names, err)
		}
	}
}

func TestOneNameInTwoRegions(t *testing.T) {
	t.Parallel()
	a, b := hostile(), hostile()
	a.School, b.School, a.ID, b.ID, b.Region = "Selam School", "Selam School", 1, 2, "Afar"
	cfg := config(t, "Selam School")
	if _, err := bundle.Write(t.Context(), cfg, source(a, b)); err == nil || !strings.Contains(err.Error(), "Afar") {
		t.Errorf("got %v, want an error that names both regions", err)
	}
	cfg.Region = "afar"
	got, err := bundle.Write(t.Context(), cfg, source(a, b))
	if err != nil || got.Students != 1 || got.Region != "Afar" {
		t.Errorf("got %+v, %v, want the one student in Afar", got, err)
	}
}

// A bundle that fails leaves the old one.
func TestFailureChangesNothing(t *testing.T) {
	t.Parallel()
	student := hostile()
	cfg := config(t, student.School)
	if _, err := bundle.Write(t.Context(), cfg, source(student)); err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadDir(cfg.Directory)
	if err != nil {
		t.Fatal(err)
	}
	before := read(t, filepath.Join(cfg.Directory, names[0].Name()))
	broken := source(student, student)
	broken.Students, broken.Err = broken.Students[:1], errors.New("the tape broke")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	failing := cfg
	failing.Link = func(*results.Student) (string, error) { return "", errors.New("no key") }
	for name, try := range map[string]func() error{
		"the tape broke": func() error { _, err := bundle.Write(t.Context(), cfg, broken); return err },
		"no key":         func() error { _, err := bundle.Write(t.Context(), failing, source(student)); return err },
		"canceled":       func() error { _, err := bundle.Write(cancelled, cfg, resultstest.Generator(t, 1, 100_000)); return err },
		"missing":        func() error { _, err := bundle.Write(t.Context(), bundle.Config{}, source(student)); return err },
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %q", err, name)
		}
	}
	after, err := os.ReadDir(cfg.Directory)
	if err != nil || len(after) != len(names) || read(t, filepath.Join(cfg.Directory, names[0].Name())) != before {
		t.Errorf("got %v, %v, want the old files alone", after, err)
	}
}

var plainName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// Whatever a school is called, its file has a plain name, of its own.
func FuzzFileName(f *testing.F) {
	f.Add("Bole School", "Addis Ababa")
	f.Add("../../etc/passwd", "")
	f.Add("ቦሌ ትምህርት ቤት", "\x00")
	f.Add(strings.Repeat("x-", 500), "")
	f.Fuzz(func(t *testing.T, school, region string) {
		name := bundle.FileName(school, region)
		if !plainName.MatchString(name) || len(name) > 100 {
			t.Errorf("got %q for %q", name, school)
		}
		if other := bundle.FileName(school+"x", region); other == name {
			t.Errorf("%q and %q both have %q", school, school+"x", name)
		}
	})
}

func TestSpaced(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"": "", "ABC": "ABC", "ABCD": "ABCD", "ABCDE": "ABCD-E", "7QX4M2KD90AZ": "7QX4-M2KD-90AZ", "7Q-X4M2KD": "7QX4-M2KD",
	} {
		if got := bundle.Spaced(code); got != want {
			t.Errorf("%s: got %s, want %s", code, got, want)
		}
	}
}
