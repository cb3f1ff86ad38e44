package results

import (
	"errors"
	"fmt"
	"strconv"

	"loadstone/block/text"
)

// Bounds of a student's fields. The text bounds are in bytes; they keep every
// record, and so every response, small.
const (
	MaxMark         = 100
	MaxTotal        = SubjectsPerStream * MaxMark
	DefaultPassMark = MaxTotal / 2
	MaxTextBytes    = 200
)

// Student is one student's result. Total, average and pass are computed, never
// stored beside the marks, so they cannot disagree with them.
type Student struct {
	ID        int64 // 1 to MaxID
	Name      string
	Sex       Sex
	School    string
	Region    string
	BirthDate Date
	Stream    Stream
	// Marks are whole numbers from 0 to MaxMark in the order of Stream.Subjects.
	Marks [SubjectsPerStream]int
	// PassMark is the total that passes, from 1 to MaxTotal.
	PassMark int
	// Code opens the page: letters, digits and hyphens, see FoldedCode. It is a
	// secret between the student and the system and is never part of a body.
	Code string
}

// Total returns the sum of the marks.
func (s *Student) Total() int {
	total := 0
	for _, mark := range s.Marks {
		total += mark
	}
	return total
}

// Average returns the mean mark, rounded to the nearest tenth. Halves do not
// occur: seven is odd.
func (s *Student) Average() Tenths {
	return Tenths((s.Total()*20 + SubjectsPerStream) / (2 * SubjectsPerStream))
}

// Passed reports whether the total reaches the pass mark.
func (s *Student) Passed() bool { return s.Total() >= s.PassMark }

// Tenths is a number with one decimal, held as an integer so that it is exact:
// 627 is 62.7.
type Tenths int

// Append appends the number with exactly one decimal. It must not be negative.
func (t Tenths) Append(dst []byte) []byte {
	dst = strconv.AppendInt(dst, int64(t/10), 10)
	return append(dst, '.', '0'+byte(t%10))
}

// String returns the number with exactly one decimal.
func (t Tenths) String() string { return string(t.Append(nil)) }

// Validate returns every problem of the student, joined, each with the value and
// what to write instead; nil if there is none.
func (s *Student) Validate() error {
	var problems []error
	add := func(problem error) {
		if problem != nil {
			problems = append(problems, problem)
		}
	}
	if s.ID < 1 || s.ID > MaxID {
		add(fmt.Errorf("id is %d: write 1 to 18 digits, not 0", s.ID))
	}
	add(text.Check("name", s.Name, MaxTextBytes))
	if s.Sex.String() == "" {
		add(errors.New("sex is unknown: write female or male"))
	}
	add(text.Check("school", s.School, MaxTextBytes))
	add(text.Check("region", s.Region, MaxTextBytes))
	if !s.BirthDate.Valid() {
		add(fmt.Errorf("birth_date is %s: write a day of the years %d to %d as YYYY-MM-DD", s.BirthDate, minYear, maxYear))
	}
	if s.Stream.String() == "" {
		add(errors.New("stream is unknown: write natural or social"))
	}
	for i, subject := range s.Stream.Subjects() {
		if mark := s.Marks[i]; mark < 0 || mark > MaxMark {
			add(fmt.Errorf("%s is %d: write a whole number from 0 to %d", subject, mark, MaxMark))
		}
	}
	if s.PassMark < 1 || s.PassMark > MaxTotal {
		add(fmt.Errorf("pass_mark is %d: write a whole number from 1 to %d", s.PassMark, MaxTotal))
	}
	add(checkCode(s.Code))
	return errors.Join(problems...)
}

// checkCode never shows the code: problems go to logs and terminals.
func checkCode(code string) error {
	folded := FoldCode([]byte(code))
	if n := len(folded.Bytes()); n < MinCodeChars || len(code) > MaxCodeBytes {
		return fmt.Errorf("code has %d letters and digits in %d characters: write at least %d in at most %d",
			n, len(code), MinCodeChars, MaxCodeBytes)
	}
	for i := range len(code) {
		char := code[i]
		letter := char|0x20 >= 'a' && char|0x20 <= 'z'
		digit := char >= '0' && char <= '9'
		if !letter && !digit && char != '-' {
			return fmt.Errorf("code has %q at position %d: write letters A to Z, digits and hyphens", char, i+1)
		}
	}
	return nil
}
