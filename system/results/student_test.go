package results

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func sample() Student {
	return Student{
		ID:        123456,
		Name:      "Hanna Tesfaye Kebede",
		Sex:       Female,
		School:    "Adama Selam Secondary School",
		Region:    "Oromia",
		BirthDate: Date{2007, 3, 14},
		Stream:    Natural,
		Marks:     [SubjectsPerStream]int{67, 55, 61, 49, 70, 66, 71},
		PassMark:  DefaultPassMark,
		Code:      "7Q4MZK2XW9TA",
	}
}

// body is the response as encoding/json would be told to write it: the reference
// for AppendJSON.
type body struct {
	ID        int64           `json:"id"`
	Name      string          `json:"name"`
	Sex       string          `json:"sex"`
	School    string          `json:"school"`
	Region    string          `json:"region"`
	BirthDate string          `json:"birth_date"`
	Stream    string          `json:"stream"`
	Marks     json.RawMessage `json:"marks"`
	Total     int             `json:"total"`
	Average   json.Number     `json:"average"`
	PassMark  int             `json:"pass_mark"`
	Passed    bool            `json:"passed"`
}

func reference(t *testing.T, s *Student) []byte {
	t.Helper()
	var marks bytes.Buffer
	for i, subject := range s.Stream.Subjects() {
		separator := ","
		if i == 0 {
			separator = "{"
		}
		pair, err := json.Marshal(map[string]int{subject.String(): s.Marks[i]})
		if err != nil {
			t.Fatal(err)
		}
		marks.WriteString(separator + string(pair[1:len(pair)-1]))
	}
	marks.WriteString("}")
	want, err := json.Marshal(body{
		ID: s.ID, Name: s.Name, Sex: s.Sex.String(), School: s.School, Region: s.Region,
		BirthDate: s.BirthDate.String(), Stream: s.Stream.String(), Marks: marks.Bytes(),
		Total: s.Total(), Average: json.Number(s.Average().String()), PassMark: s.PassMark, Passed: s.Passed(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return want
}

func TestAppendJSONMatchesEncodingJSON(t *testing.T) {
	t.Parallel()
	texts := []string{
		"Hanna", "ሀና ተስፋዬ", `quote " and \ slash`, "<b>&amp;</b>", "line\u2028para\u2029", "\xff broken \xe1\x88",
		"\x00\x01\b\f\n\r\t\x1f\x7f", "", "emoji 🎓 end", "\u2027\u202a near misses",
	}
	for _, text := range texts {
		student := sample()
		student.Name, student.School, student.Region = text, text+text, "x"+text
		got, want := student.AppendJSON([]byte("kept ")), append([]byte("kept "), reference(t, &student)...)
		if !bytes.Equal(got, want) {
			t.Errorf("body of %q\n got %s\nwant %s", text, got, want)
		}
	}
}

func FuzzAppendJSON(f *testing.F) {
	f.Add("Hanna", "a\u2028\xffb")
	f.Add("<ሀ>", "\\\"\x7f")
	f.Fuzz(func(t *testing.T, name, school string) {
		student := sample()
		student.Name, student.School = name, school
		if got, want := student.AppendJSON(nil), reference(t, &student); !bytes.Equal(got, want) {
			t.Errorf("got %s\nwant %s", got, want)
		}
	})
}

// TestBodyIsPinned fails when the bytes of a body change. Published snapshots
// hold such bytes: whoever changes them on purpose raises snapshot.Version.
func TestBodyIsPinned(t *testing.T) {
	t.Parallel()
	student := sample()
	const want = `{"id":123456,"name":"Hanna Tesfaye Kebede","sex":"female","school":"Adama Selam Secondary School",` +
		`"region":"Oromia","birth_date":"2007-03-14","stream":"natural","marks":{"english":67,"mathematics":55,` +
		`"physics":61,"chemistry":49,"biology":70,"aptitude":66,"civics":71},"total":439,"average":62.7,` +
		`"pass_mark":350,"passed":true}`
	page := NewPage(&student)
	if got := string(page.Body); got != want {
		t.Errorf("body\n got %s\nwant %s", got, want)
	}
	if got, want := string(page.Code), student.Code; got != want {
		t.Errorf("code: got %q, want %q", got, want)
	}
	if strings.Contains(string(page.Body), student.Code) {
		t.Error("the body gives the access code away")
	}
	if got, want := page.Tag, Tag([]byte(want)); got != want {
		t.Errorf("tag: got %x, want %x", got, want)
	}
}

func TestAverageIsExact(t *testing.T) {
	t.Parallel()
	for total := range MaxTotal + 1 {
		var student Student
		for left := total; left > 0; left -= min(left, MaxMark) {
			student.Marks[(left-1)/MaxMark] = min(left, MaxMark)
		}
		if got := student.Total(); got != total {
			t.Fatalf("total: got %d, want %d", got, total)
		}
		// |average - total/7| <= 1/20, in whole numbers.
		if off := int(student.Average())*SubjectsPerStream - 10*total; 2*off > SubjectsPerStream || -2*off > SubjectsPerStream {
			t.Errorf("average of %d: got %s", total, student.Average())
		}
	}
	if got, want := Tenths(700).String(), "70.0"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestPassedAtThePassMark(t *testing.T) {
	t.Parallel()
	student := sample()
	for pass, want := range map[int]bool{438: true, 439: true, 440: false} {
		student.PassMark = pass
		if got := student.Passed(); got != want {
			t.Errorf("total 439, pass mark %d: got %t, want %t", pass, got, want)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*Student)
		want   []string // each must appear; none means valid
	}{
		"whole":                {func(*Student) {}, nil},
		"amharic name":         {func(s *Student) { s.Name = "ሀና ተስፋዬ ከበደ" }, nil},
		"zero id":              {func(s *Student) { s.ID = 0 }, []string{"id is 0"}},
		"negative id":          {func(s *Student) { s.ID = -4 }, []string{"id is -4"}},
		"id of 19 digits":      {func(s *Student) { s.ID = MaxID + 1 }, []string{"id is 1000000000000000000"}},
		"no name":              {func(s *Student) { s.Name = "" }, []string{"name is empty"}},
		"long school":          {func(s *Student) { s.School = strings.Repeat("x", 201) }, []string{"school has 201 bytes"}},
		"spaces":               {func(s *Student) { s.Region = "Afar " }, []string{`region is "Afar "`}},
		"not utf-8":            {func(s *Student) { s.Name = "H\xe9l\xe8ne" }, []string{"not UTF-8"}},
		"line break":           {func(s *Student) { s.Name = "A\nB" }, []string{"line breaks"}},
		"other scripts":        {func(s *Student) { s.Name = "Ḥäl\u00a0O’Neil N'Diaye-መኮንን፡ በቀለ الرحمة" }, nil},
		"space around":         {func(s *Student) { s.Name = "Abeba\u00a0" }, []string{`name is "Abeba\u00a0": write it without spaces`}},
		"turned around":        {func(s *Student) { s.Name = "Abe\u202eba" }, []string{`name is "Abe\u202eba": U+202E is not seen`}},
		"sex":                  {func(s *Student) { s.Sex = 3 }, []string{"sex is unknown"}},
		"stream":               {func(s *Student) { s.Stream = 0 }, []string{"stream is unknown"}},
		"30 february":          {func(s *Student) { s.BirthDate = Date{2007, 2, 30} }, []string{"birth_date is 2007-02-30"}},
		"mark above":           {func(s *Student) { s.Marks[2] = 101 }, []string{"physics is 101"}},
		"mark below":           {func(s *Student) { s.Marks[6] = -1 }, []string{"civics is -1"}},
		"pass mark zero":       {func(s *Student) { s.PassMark = 0 }, []string{"pass_mark is 0"}},
		"pass mark too high":   {func(s *Student) { s.PassMark = 701 }, []string{"pass_mark is 701"}},
		"short code":           {func(s *Student) { s.Code = "ABC4567" }, []string{"code has 7 letters and digits"}},
		"hyphens do not count": {func(s *Student) { s.Code = "1-------" }, []string{"code has 1 letters and digits in 8 characters"}},
		"nothing but hyphens":  {func(s *Student) { s.Code = "----------" }, []string{"code has 0 letters and digits in 10"}},
		"long code":            {func(s *Student) { s.Code = "ABCDEFGH" + strings.Repeat("-", 57) }, []string{"in 65 characters"}},
		"space in code":        {func(s *Student) { s.Code = "ABCD 5678" }, []string{`' ' at position 5`}},
		"everything at once":   {func(s *Student) { *s = Student{} }, []string{"id", "name", "sex", "school", "region", "birth_date", "stream", "pass_mark", "code"}},
		"two marks both told":  {func(s *Student) { s.Marks[0], s.Marks[1] = 999, -9 }, []string{"english is 999", "mathematics is -9"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			student := sample()
			test.change(&student)
			err := student.Validate()
			if len(test.want) == 0 {
				if err != nil {
					t.Fatalf("got %v, want no problem", err)
				}
				return
			}
			if err == nil {
				t.Fatalf("got no problem, want %q", test.want)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, want %q in it", err, want)
				}
			}
			if got, want := len(strings.Split(err.Error(), "\n")), len(test.want); got != want {
				t.Errorf("got %d problems, want %d: %v", got, want, err)
			}
		})
	}
}

// Two names that look the same are the same, and none turns the text beside it around.
func TestUnseenCharacters(t *testing.T) {
	t.Parallel()
	for _, char := range "\x00\x1b\x7f\u0085\u00ad\u034f\u061c\u115f\u180e\u200b\u200c\u200d\u200e\u200f\u2028\u2029" +
		"\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\u206a\u3164\ue000\ufe0f\ufeff\uffa0\U000e0041\U000e0100" {
		for _, field := range []func(*Student) *string{
			func(s *Student) *string { return &s.Name },
			func(s *Student) *string { return &s.School },
			func(s *Student) *string { return &s.Region },
		} {
			student := sample()
			*field(&student) = "Abe" + string(char) + "ba"
			if student.Validate() == nil {
				t.Errorf("%U passes", char)
			}
		}
	}
}

func TestValidateNeverShowsTheCode(t *testing.T) {
	t.Parallel()
	student := sample()
	student.Code = "SECRET!SECRET"
	if err := student.Validate(); err == nil || strings.Contains(err.Error(), "SECRET") {
		t.Errorf("got %v, want a problem that does not hold the code", err)
	}
}

func TestParseDate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"2007-03-14": true, "2008-02-29": true, "2000-02-29": true, "1900-02-28": true,
		"2007-02-29": false, "1900-02-29": false, "2007-13-01": false, "2007-00-10": false, "2007-04-31": false,
		"2007-04-00": false, "1899-12-31": false, "2101-01-01": false, "14/03/2007": false, "2007-3-14": false,
		"2007-03-14Z": false, "": false, "20a7-03-14": false, "2007-0:-14": false,
	} {
		date, got := ParseDate(text)
		if got != want {
			t.Errorf("ParseDate(%q): got %t, want %t", text, got, want)
		}
		if got && date.String() != text {
			t.Errorf("ParseDate(%q): reads %s", text, date)
		}
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	student := sample()
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = student.AppendJSON(buf[:0])
	}
	b.SetBytes(int64(len(buf)))
}

// BenchmarkEncodingJSON is what AppendJSON is measured against.
func BenchmarkEncodingJSON(b *testing.B) {
	student := sample()
	value := body{
		ID: student.ID, Name: student.Name, Sex: "female", School: student.School, Region: student.Region,
		BirthDate: "2007-03-14", Stream: "natural", Total: 439, Average: "62.7", PassMark: 350, Passed: true,
		Marks: json.RawMessage(`{"english":67,"mathematics":55,"physics":61,"chemistry":49,"biology":70,"aptitude":66,"civics":71}`),
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := json.Marshal(value); err != nil {
			b.Fatal(err)
		}
	}
}
