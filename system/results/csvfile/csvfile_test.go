package csvfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"loadstone/block/dataset"
	"loadstone/system/results"
	"loadstone/system/results/resultstest"
)

func save(tb testing.TB, text string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "marks.csv")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

func write(tb testing.TB, source dataset.Source[results.Student]) string {
	tb.Helper()
	var text bytes.Buffer
	if err := Write(tb.Context(), &text, source, nil); err != nil {
		tb.Fatal(err)
	}
	return text.String()
}

func open(tb testing.TB, text string) *File {
	tb.Helper()
	file, err := Open(tb.Context(), save(tb, text))
	if err != nil {
		tb.Fatal(err)
	}
	return file
}

const header = "id,name,sex,school,region,birth_date,stream," +
	"english,mathematics,physics,chemistry,biology,geography,history,economics,aptitude,civics,pass_mark,code"

const (
	natural = `17,Hanna Tesfaye Kebede,female,"Adama, Selam School",Oromia,2007-03-14,natural,67,55,61,49,70,,,,66,71,350,7Q4MZK2XW9TA`
	social  = `18,Yonas Alemu Girma,male,Bole School,Addis Ababa,2006-12-01,social,50,41,,,,52,53,54,55,56,,7Q4MZK2XW9TB`
)

func rows(rows ...string) string { return header + "\n" + strings.Join(rows, "\n") + "\n" }

func TestSource(t *testing.T) {
	t.Parallel()
	const count = 3000
	generator := resultstest.Generator(t, 6, count)
	want := map[int64]results.Student{}
	for id := int64(1); id <= count; id++ {
		want[id] = generator.Student(id)
	}
	text := write(t, generator)
	for name, text := range map[string]string{
		"as written":           text,
		"CRLF":                 strings.ReplaceAll(text, "\n", "\r\n"),
		"with byte order mark": "\xef\xbb\xbf" + text,
		"no last line end":     strings.TrimSuffix(text, "\n"),
		"blank lines":          strings.ReplaceAll(text, "\n", "\n\n"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resultstest.Source(t, open(t, text), want)
		})
	}
}

func TestRows(t *testing.T) {
	t.Parallel()
	file := open(t, rows(natural, social))
	want := []results.Student{
		{
			ID: 17, Name: "Hanna Tesfaye Kebede", Sex: results.Female, School: "Adama, Selam School", Region: "Oromia",
			BirthDate: results.Date{Year: 2007, Month: 3, Day: 14}, Stream: results.Natural,
			Marks: [7]int{67, 55, 61, 49, 70, 66, 71}, PassMark: 350, Code: "7Q4MZK2XW9TA",
		},
		{
			ID: 18, Name: "Yonas Alemu Girma", Sex: results.Male, School: "Bole School", Region: "Addis Ababa",
			BirthDate: results.Date{Year: 2006, Month: 12, Day: 1}, Stream: results.Social,
			Marks: [7]int{50, 41, 52, 53, 54, 55, 56}, PassMark: 350, Code: "7Q4MZK2XW9TB",
		},
	}
	i := 0
	for got, err := range file.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if got != want[i] {
			t.Errorf("row %d: got %+v, want %+v", i, got, want[i])
		}
		i++
	}
	meta := file.Meta()
	if meta.Count != 2 || !strings.HasPrefix(meta.Origin, "marks.csv, sha256 ") || len(meta.Fingerprint) > dataset.MaxFingerprintBytes {
		t.Errorf("meta: got %+v", meta)
	}
}

// TestColumnsInAnyOrder reverses the columns and leaves the optional ones out.
func TestColumnsInAnyOrder(t *testing.T) {
	t.Parallel()
	reverse := func(row string) string {
		fields := strings.Split(strings.ReplaceAll(row, `"Adama, Selam School"`, "Adama Selam School"), ",")
		fields = fields[:len(fields)-2]
		for i, j := 0, len(fields)-1; i < j; i, j = i+1, j-1 {
			fields[i], fields[j] = fields[j], fields[i]
		}
		return strings.Join(fields, ",")
	}
	file := open(t, reverse(header)+"\n"+reverse(natural)+"\n"+reverse(social)+"\n")
	codes := map[string]bool{}
	for range 2 {
		for student, err := range file.All(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if student.ID == 17 && student.Marks != [7]int{67, 55, 61, 49, 70, 66, 71} || student.PassMark != results.DefaultPassMark {
				t.Errorf("got %+v", student)
			}
			codes[student.Code] = true
		}
	}
	if len(codes) != 4 {
		t.Errorf("got %d different codes for 2 students in 2 readings, want 4", len(codes))
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		header string
		want   []string
	}{
		"unknown":    {header + ",shoe_size", []string{`:1: column "shoe_size" is unknown: delete it`}},
		"capitals":   {strings.Replace(header, "birth_date", "Birth Date", 1), []string{`column "Birth Date" is unknown: write birth_date`, `column "birth_date" is missing`}},
		"missing":    {strings.Replace(header, ",biology", "", 1), []string{`:1: column "biology" is missing: whole number from 0 to 100; empty for social`}},
		"twice":      {header + ",civics", []string{`column "civics" is there twice: delete one`}},
		"several":    {"id,id,nme", []string{`column "id" is there twice`, `column "nme" is unknown`, `column "name" is missing`, `column "civics" is missing`}},
		"semicolons": {strings.ReplaceAll(header, ",", ";"), []string{"separated by semicolons: write commas"}},
		"tabs":       {strings.ReplaceAll(header, ",", "\t"), []string{"separated by tabs: write commas"}},
		"empty":      {"", []string{"is empty: write a header"}},
		"no rows":    {header, []string{"has a header but no students"}},
		"utf-16":     {"\xff\xfei\x00d\x00", []string{"the file is UTF-16: save it as CSV in UTF-8"}},
		"quotes":     {`id,"name`, []string{":1: a quoted field does not end"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := save(t, test.header)
			_, err := Open(t.Context(), path)
			if !errors.Is(err, results.ErrInput) {
				t.Fatalf("got %v, want ErrInput", err)
			}
			for _, want := range append(test.want, path) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, want %q in it", err, want)
				}
			}
		})
	}
}

func TestBadRows(t *testing.T) {
	t.Parallel()
	change := func(from, to string) string { return strings.Replace(natural, from, to, 1) }
	for name, test := range map[string]struct {
		row  string
		want []string
	}{
		"id with zeros":   {change("17", "017"), []string{`id is "017": write 1 to 18 digits`}},
		"no id":           {change("17", ""), []string{`id is ""`}},
		"no name":         {change("Hanna Tesfaye Kebede", ""), []string{"name is empty"}},
		"sex":             {change("female", "F"), []string{`sex is "F": write female or male`}},
		"day":             {change("2007-03-14", "14/03/2007"), []string{`birth_date is "14/03/2007": write a day that exists as YYYY-MM-DD`}},
		"no such day":     {change("2007-03-14", "2007-02-29"), []string{`birth_date is "2007-02-29"`}},
		"stream":          {change("natural", "science"), []string{`stream is "science": write natural or social`}},
		"mark 101":        {change(",61,", ",101,"), []string{`physics is "101": write a whole number from 0 to 100`}},
		"mark 99999":      {change(",61,", ",99999,"), []string{`physics is "99999"`}},
		"mark -1":         {change(",61,", ",-1,"), []string{`physics is "-1"`}},
		"half a mark":     {change(",61,", ",61.5,"), []string{`physics is "61.5"`}},
		"no mark":         {change(",61,", ",,"), []string{`physics is ""`}},
		"other stream":    {change(",,,,66", ",,40,,66"), []string{`history is "40": leave it empty, for the stream is natural`}},
		"pass mark":       {change(",350,", ",0,"), []string{`pass_mark is "0": write a whole number from 1 to 700`}},
		"short code":      {change("7Q4MZK2XW9TA", "7Q4"), []string{"code has 3 letters and digits in 3 characters: write at least 8 in at most 64"}},
		"no code":         {change("7Q4MZK2XW9TA", ""), []string{"code has 0 letters and digits"}},
		"latin-1":         {change("Hanna", "H\xe4nna"), []string{"not UTF-8: save the data as UTF-8"}},
		"line break":      {change("Hanna Tesfaye Kebede", "\"Hanna\nTesfaye\""), []string{"line breaks"}},
		"too few fields":  {change(",Oromia", ""), []string{"the row has 18 fields, the header 19"}},
		"too many fields": {natural + ",", []string{"the row has 20 fields, the header 19"}},
		"all empty":       {strings.Repeat(",", 18), []string{"all fields are empty: delete the row"}},
		"quote inside":    {change("Hanna", `Ha"nna`), []string{"quote inside a field at column"}},
		"many":            {change("female", "x") + "!", []string{`sex is "x"`, `'!' at position 13`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Line 2 is good, line 3 bad, and another bad one follows.
			path := save(t, rows(social, test.row, strings.Replace(social, "18,", "19,", 1), "bad"))
			_, err := Open(t.Context(), path)
			var mistakes *InputError
			if !errors.As(err, &mistakes) || !errors.Is(err, results.ErrInput) {
				t.Fatalf("got %v, want mistakes", err)
			}
			if len(mistakes.List) != 2 || mistakes.List[0].Line != 3 || mistakes.Rows != 4 || mistakes.Stopped {
				t.Fatalf("got %+v, want two mistakes, the first on line 3", mistakes)
			}
			wantLast := 5 + strings.Count(test.row, "\n")
			if got := mistakes.List[1].Line; got != wantLast {
				t.Errorf("second mistake: got line %d, want %d", got, wantLast)
			}
			for _, want := range append(test.want, path+":3: ", "2 bad rows of 4") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, want %q in it", err, want)
				}
			}
			if strings.Contains(err.Error(), "7Q4MZK2XW9TA") {
				t.Errorf("the report shows an access code: %v", err)
			}
		})
	}
}

func TestUnclosedQuoteIsToldWithItsFirstLine(t *testing.T) {
	t.Parallel()
	path := save(t, rows(natural, strings.Replace(social, "Bole School", `"Bole School`, 1), "x", "y"))
	_, err := Open(t.Context(), path)
	if !errors.Is(err, results.ErrInput) || !strings.Contains(err.Error(), path+":3: a quoted field does not end") {
		t.Errorf("got %v, want the line where the quote opens", err)
	}
}

func TestRepeatedID(t *testing.T) {
	t.Parallel()
	path := save(t, rows(natural, social, natural))
	_, err := Open(t.Context(), path)
	want := path + ":4: id is 17, as on line 2: write each student once"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestStopsAfterTwentyBadRows(t *testing.T) {
	t.Parallel()
	path := save(t, rows(natural, strings.TrimSpace(strings.Repeat("bad\n", 100))))
	_, err := Open(t.Context(), path)
	var mistakes *InputError
	if !errors.As(err, &mistakes) || len(mistakes.List) != MaxMistakes || !mistakes.Stopped {
		t.Fatalf("got %v, want %d mistakes and a stop", err, MaxMistakes)
	}
	if want := "stopped after 20 bad rows in the first 21:"; !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	if _, err := Open(t.Context(), filepath.Join(directory, "absent.csv")); !errors.Is(err, results.ErrMissing) {
		t.Errorf("absent: got %v, want ErrMissing", err)
	}
	pipe := filepath.Join(directory, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{directory, pipe} {
		if _, err := Open(t.Context(), path); !errors.Is(err, results.ErrInput) {
			t.Errorf("%s: got %v, want ErrInput", path, err)
		}
	}
}

func TestFileThatChangesAfterTheCheckIsNoticed(t *testing.T) {
	t.Parallel()
	path := save(t, rows(natural, social))
	file, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"another mark": rows(strings.Replace(natural, "67", "68", 1), social),
		"a row less":   rows(natural),
		"a bad row":    rows(natural, "bad"),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var last error
		for _, err := range file.All(t.Context()) {
			last = err
		}
		if last == nil {
			t.Errorf("%s: the change was not noticed", name)
		}
	}
}

func TestCheckEndsWithItsContext(t *testing.T) {
	t.Parallel()
	path := save(t, write(t, resultstest.Generator(t, 1, 3000)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func TestExampleCanBeImported(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	if err := Example(t.Context(), &text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{header, ",natural,", ",social,"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("got %s, want %q in it", &text, want)
		}
	}
	if got := open(t, text.String()).Meta().Count; got != 6 {
		t.Errorf("got %d students, want 6", got)
	}
}

func TestFingerprintIsThatOfTheFile(t *testing.T) {
	t.Parallel()
	one, again, other := open(t, rows(natural, social)), open(t, rows(natural, social)), open(t, rows(social, natural))
	if !one.Meta().Same(again.Meta()) {
		t.Error("the same file has two fingerprints")
	}
	if one.Meta().Same(other.Meta()) {
		t.Error("two files have the same fingerprint")
	}
}

func TestWriteReportsItsWriter(t *testing.T) {
	t.Parallel()
	reader, writer := io.Pipe()
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Write(t.Context(), writer, resultstest.Generator(t, 1, 1000), nil); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v, want the writer's error", err)
	}
}

// FuzzDecode decodes arbitrary text. Whatever is accepted must be valid and must
// come back the same from what Write writes.
func FuzzDecode(f *testing.F) {
	f.Add(rows(natural, social))
	f.Add("\xef\xbb\xbf" + strings.ReplaceAll(rows(natural), "\n", "\r\n"))
	f.Add(rows(`"a""b`))
	f.Add("id;name\n")
	f.Fuzz(func(t *testing.T, text string) {
		students := decodeAll(t, text)
		if len(students) == 0 {
			return
		}
		list := resultstest.List{Description: dataset.Meta{Count: int64(len(students))}, Students: students}
		if got := decodeAll(t, write(t, list)); fmt.Sprint(got) != fmt.Sprint(students) {
			t.Errorf("got %v, want %v", got, students)
		}
	})
}

// decodeAll returns the good rows; only those of a file with codes are the same
// the next time.
func decodeAll(t *testing.T, text string) (students []results.Student) {
	t.Helper()
	decoder, err := newDecoder("fuzz.csv", strings.NewReader(text))
	if err != nil {
		return nil
	}
	for {
		student, err := decoder.next()
		if errors.Is(err, io.EOF) {
			return students
		}
		if err == nil {
			students = append(students, student)
			continue
		}
		var bad *rowError
		if !errors.As(err, &bad) || bad.Line < 1 || bad.Text == "" {
			t.Fatalf("got %v, want a mistake with its line", err)
		}
	}
}

// BenchmarkOpen measures the check of one row.
func BenchmarkOpen(b *testing.B) {
	path := save(b, write(b, resultstest.Generator(b, 1, int64(b.N))))
	b.ReportAllocs()
	b.ResetTimer()
	if _, err := Open(b.Context(), path); err != nil {
		b.Fatal(err)
	}
}
