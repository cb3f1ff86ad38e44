package feedfile

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"loadstone/block/dataset"
	"loadstone/system/feed"
)

// The columns of CSV. The first needed of them have to be there, in any order.
var columns = []string{"id", "published", "title", "text", "author_id", "author", "role", "team", "pinned", "image", "alt"}

const needed = 6

// csvRows reads a post a row.
type csvRows struct {
	budget *budget
	csv    *csv.Reader
	at     map[string]int // columns; nil before the header was read
	width  int
}

func newCSV(content io.Reader) decoder {
	b := &budget{Reader: content}
	d := &csvRows{budget: b, csv: csv.NewReader(b)}
	d.csv.FieldsPerRecord = -1 // counted here, for a better message
	return d
}

// budget keeps a quote that is never closed from taking the whole file for one field.
type budget struct {
	io.Reader
	left int
}

var errRow = fmt.Errorf("%w: a row has more than %d bytes: look for a quote that is not closed", feed.ErrInput, MaxLineBytes)

// Read implements io.Reader.
func (b *budget) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errRow
	}
	n, err := b.Reader.Read(p)
	b.left -= n
	return n, err
}

// row returns the next row and its line. Behind wrong quotes it cannot be known what is a
// row, so that ends the reading.
func (d *csvRows) row() ([]string, int, error) {
	d.budget.left = MaxLineBytes
	fields, err := d.csv.Read()
	if syntax, ok := errors.AsType[*csv.ParseError](err); ok {
		err = fmt.Errorf(`%w: line %d: the quotes are wrong: put a field that has any in quotes, and write "" for each inside`, feed.ErrInput, syntax.Line)
	}
	if err != nil {
		return nil, 0, err
	}
	line, _ := d.csv.FieldPos(0)
	return fields, line, nil
}

func (d *csvRows) header() error {
	fields, _, err := d.row()
	if err != nil {
		return err
	}
	d.at, d.width = map[string]int{}, len(fields)
	for i, name := range fields {
		if _, twice := d.at[name]; twice || !slices.Contains(columns, name) {
			return fmt.Errorf("%w: line 1: column %.40q is unknown or there twice: write a header of %s", feed.ErrInput, name, strings.Join(columns, ","))
		}
		d.at[name] = i
	}
	for _, name := range columns[:needed] {
		if _, ok := d.at[name]; !ok {
			return fmt.Errorf("%w: line 1: column %s is missing: write a header of %s, of which the last %d may be left out",
				feed.ErrInput, name, strings.Join(columns, ","), len(columns)-needed)
		}
	}
	return nil
}

func (d *csvRows) next() (e feed.Entry, line int, err error) {
	if d.at == nil {
		if err := d.header(); err != nil {
			return e, 0, err
		}
	}
	fields, line, err := d.row()
	if err != nil {
		return e, line, err
	}
	if len(fields) != d.width {
		return e, line, mistake{fmt.Errorf("the row has %d fields, the header %d: look for a comma too few or too many", len(fields), d.width)}
	}
	if e, err = d.entry(fields); err != nil {
		return e, line, mistake{err}
	}
	return e, line, nil
}

func (d *csvRows) entry(fields []string) (feed.Entry, error) {
	cell := func(name string) string {
		if i, ok := d.at[name]; ok {
			return fields[i]
		}
		return ""
	}
	var problems []error
	number := func(name string) int64 {
		id, ok := dataset.ParseID(cell(name))
		if !ok {
			problems = append(problems, fmt.Errorf("%s is %.40q: write 1 to 18 digits, the first not 0", name, cell(name)))
		}
		return id
	}
	e := feed.Entry{
		Post:   feed.Post{ID: number("id"), Title: cell("title"), Text: cell("text")},
		Author: feed.Author{ID: number("author_id"), Name: cell("author"), Role: cell("role"), Team: cell("team")},
	}
	published, err := time.Parse(time.RFC3339, cell("published"))
	if err != nil {
		problems = append(problems, fmt.Errorf("published is %.40q: write a time such as 2026-01-31T08:00:00Z", cell("published")))
	}
	e.Published = published.UnixMilli()
	if text := cell("pinned"); text != "" {
		if e.Pinned, err = strconv.ParseBool(text); err != nil {
			problems = append(problems, fmt.Errorf("pinned is %.40q: write true or false", text))
		}
	}
	if image := cell("image"); image != "" {
		e.Media = []feed.Medium{{Kind: "image", URL: image, Alt: cell("alt")}}
	}
	e.Complete()
	return e, errors.Join(problems...)
}
