package csvfile

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"

	"loadstone/system/results"
)

const (
	sumSize = sha256.Size
	// MaxRowBytes bounds a row, the header included: many times what the fields of
	// a valid one may have.
	MaxRowBytes = 64 << 10
	bufferSize  = 64 << 10
)

// decoder turns rows into students.
type decoder struct {
	name   string // of the file, for errors
	input  *input
	csv    *csv.Reader
	hash   hash.Hash // of every byte read
	layout layout
}

// input ends a file behind its limit, so that a row without end, such as one whose quote is
// never closed, takes no more memory than the limit allows.
type input struct {
	io.Reader
	read, limit int64 // bytes
}

func (r *input) Read(b []byte) (int, error) {
	left := r.limit - r.read
	if left <= 0 {
		return 0, io.EOF
	}
	n, err := r.Reader.Read(b[:min(int64(len(b)), left)])
	r.read += int64(n)
	return n, err
}

// newDecoder reads the header.
func newDecoder(name string, r io.Reader) (*decoder, error) {
	d := &decoder{name: name, hash: sha256.New()}
	d.input = &input{Reader: io.TeeReader(r, d.hash), limit: bufferSize}
	buffered := bufio.NewReaderSize(d.input, bufferSize)
	if err := skipMark(buffered); err != nil {
		return nil, fmt.Errorf("%w: %s:1: %w", results.ErrInput, name, err)
	}
	d.csv = csv.NewReader(buffered)
	d.csv.ReuseRecord = true
	d.csv.FieldsPerRecord = -1 // counted here, for a better message
	header, err := d.read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: %s is empty: write a header and one row for each student", results.ErrInput, name)
	}
	if err != nil {
		return nil, err
	}
	d.layout, err = newLayout(name, header)
	return d, err
}

// skipMark skips a UTF-8 byte order mark and refuses the marks of UTF-16, which
// spreadsheets write as "Unicode text".
func skipMark(r *bufio.Reader) error {
	start, err := r.Peek(3)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch {
	case bytes.HasPrefix(start, []byte("\xef\xbb\xbf")):
		_, err := r.Discard(3)
		return err
	case bytes.HasPrefix(start, []byte("\xff\xfe")), bytes.HasPrefix(start, []byte("\xfe\xff")):
		return errors.New("the file is UTF-16: save it as CSV in UTF-8")
	}
	return nil
}

// next returns the next student, io.EOF behind the last one, or a *rowError;
// after a *rowError it can go on.
func (d *decoder) next() (results.Student, error) {
	record, err := d.read()
	if err != nil {
		return results.Student{}, err
	}
	if len(record) != d.layout.columns {
		return results.Student{}, d.bad(fmt.Sprintf("the row has %d fields, the header %d: look for a comma too few or too many, and put text with commas in quotes",
			len(record), d.layout.columns))
	}
	if !slices.ContainsFunc(record, func(field string) bool { return field != "" }) {
		return results.Student{}, d.bad("all fields are empty: delete the row")
	}
	return d.student(record)
}

// read returns the next row's fields, io.EOF behind the last one, or a *rowError.
func (d *decoder) read() ([]string, error) {
	start := d.csv.InputOffset()
	d.input.limit = start + MaxRowBytes + bufferSize // the buffer reads ahead
	record, err := d.csv.Read()
	if d.csv.InputOffset()-start > MaxRowBytes {
		return nil, d.tooLong(record, err)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, d.failure(err)
	}
	return record, err
}

// tooLong says where the field is in which a row exceeds its limit. What follows cannot be
// told apart into rows, so reading ends.
func (d *decoder) tooLong(record []string, err error) error {
	var line, column int
	var syntax *csv.ParseError
	switch {
	case errors.As(err, &syntax):
		line, column = syntax.StartLine, 1
	case len(record) > 0:
		line, column = d.csv.FieldPos(len(record) - 1)
	default:
		return fmt.Errorf("%w: %s has more than %d bytes of empty lines in a row: delete them", results.ErrInput, d.name, MaxRowBytes)
	}
	return fmt.Errorf("%w: %s:%d:%d: the row has more than %d bytes: write one student per line, and close every quote",
		results.ErrInput, d.name, line, column, MaxRowBytes)
}

// line returns the line where the last row starts.
func (d *decoder) line() int {
	line, _ := d.csv.FieldPos(0)
	return line
}

// sum returns the hash of the file; it is complete after io.EOF.
func (d *decoder) sum() (sum [sumSize]byte) {
	copy(sum[:], d.hash.Sum(nil))
	return sum
}

func (d *decoder) bad(text string) error { return &rowError{d.name, Mistake{d.line(), text}} }

// failure explains an error of the CSV reader: broken quotes, or a file that
// cannot be read.
func (d *decoder) failure(err error) error {
	var syntax *csv.ParseError
	if !errors.As(err, &syntax) {
		return fmt.Errorf("read %s: %w", d.name, err)
	}
	text := fmt.Sprintf("%v at column %d", syntax.Err, syntax.Column)
	switch {
	case errors.Is(err, csv.ErrQuote):
		text = "a quoted field does not end where its line ends or goes on behind the quote: write \"\" for a quote inside quotes"
	case errors.Is(err, csv.ErrBareQuote):
		text = fmt.Sprintf("there is a quote inside a field at column %d: put the field in quotes and write \"\" for a quote inside", syntax.Column)
	}
	return &rowError{d.name, Mistake{syntax.StartLine, text}}
}

// student reads a row of the right length. Where a field cannot be read it notes
// the reason and goes on with a valid value, so that one error holds everything
// that is wrong with the row.
func (d *decoder) student(record []string) (results.Student, error) {
	at, row := &d.layout, rowReader{}
	s := results.Student{
		Name:      record[at.name],
		School:    record[at.school],
		Region:    record[at.region],
		ID:        row.id(record[at.id]),
		Sex:       row.sex(record[at.sex]),
		BirthDate: row.birthDate(record[at.birthDate]),
		PassMark:  results.DefaultPassMark,
	}
	var streamOK bool
	if s.Stream, streamOK = results.ParseStream(record[at.stream]); streamOK {
		s.Marks = row.marks(s.Stream, at, record)
	} else {
		row.notef("stream is %.40q: write natural or social", record[at.stream])
		s.Stream = results.Natural
	}
	if at.passMark != notThere && record[at.passMark] != "" {
		s.PassMark = row.number("pass_mark", record[at.passMark], 1, results.MaxTotal)
	}
	if at.code == notThere {
		s.Code = results.RandomCode()
	} else {
		s.Code = record[at.code]
	}
	if err := s.Validate(); err != nil {
		row.notef("%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if len(row.problems) > 0 {
		return results.Student{}, d.bad(strings.Join(row.problems, "; "))
	}
	return s, nil
}

// rowReader reads fields and notes what is wrong with them.
type rowReader struct{ problems []string }

func (r *rowReader) notef(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

func (r *rowReader) id(text string) int64 {
	id, err := results.ParseID(text)
	if err != nil {
		r.notef("id is %.40q: write 1 to 18 digits without sign, spaces or leading zeros", text)
		return 1
	}
	return id
}

func (r *rowReader) sex(text string) results.Sex {
	sex, ok := results.ParseSex(text)
	if !ok {
		r.notef("sex is %.40q: write female or male", text)
		return results.Female
	}
	return sex
}

func (r *rowReader) birthDate(text string) results.Date {
	date, ok := results.ParseDate(text)
	if !ok {
		r.notef("birth_date is %.40q: write a day that exists as YYYY-MM-DD, like 2007-03-14", text)
		return results.Date{Year: 2000, Month: 1, Day: 1}
	}
	return date
}

// marks reads the subjects of the stream and makes sure that the others are empty.
func (r *rowReader) marks(stream results.Stream, at *layout, record []string) (marks [results.SubjectsPerStream]int) {
	next, subjects := 0, stream.Subjects()
	// Both lists have the same order.
	for i, position := range at.subjects {
		subject := results.English + results.Subject(i)
		text := record[position]
		if next < len(subjects) && subjects[next] == subject {
			marks[next] = r.number(subject.String(), text, 0, results.MaxMark)
			next++
		} else if text != "" {
			r.notef("%s is %.40q: leave it empty, for the stream is %s", subject, text, stream)
		}
	}
	return marks
}

// number reads a whole number of plain digits within the bounds.
func (r *rowReader) number(column, text string, least, most int) int {
	value := 0
	const maxDigits = 4
	ok := text != "" && len(text) <= maxDigits
	for i := 0; ok && i < len(text); i++ {
		digit := text[i] - '0'
		ok = digit <= 9
		value = value*10 + int(digit)
	}
	if !ok || value < least || value > most {
		r.notef("%s is %.40q: write a whole number from %d to %d", column, text, least, most)
		return least
	}
	return value
}
