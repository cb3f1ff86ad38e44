package feed

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
)

// readCSV reads comma-separated values (RFC 4180): the first line has the names
// of the columns, every other as many values. Empty lines are skipped.
func readCSV(in input) (*table, []string, error) {
	r := csv.NewReader(in)
	r.ReuseRecord = true
	r.FieldsPerRecord = -1 // counted below, to say more
	record, err := r.Read()
	if errors.Is(err, io.EOF) {
		return nil, nil, fmt.Errorf("%s: it is empty: give it a line with the names of its columns and one with values", in.path)
	}
	if err != nil {
		return nil, nil, csvError(in.path, err)
	}
	names := slices.Clone(record)
	if err := checkHeader(in.path, names, in.want); err != nil {
		return nil, nil, err
	}
	wanted := slices.Index(names, in.want)
	rows := newTable(len(names), in.room)
	if in.want != "" {
		rows.width = 1
	}
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return rows, names, nil
		}
		if err != nil {
			return nil, nil, csvError(in.path, err)
		}
		if len(record) != len(names) {
			line, _ := r.FieldPos(0)
			return nil, nil, fmt.Errorf("%s:%d: the row has %s, and there are %s: give each column one", in.path, line, counted(len(record), "value"), counted(len(names), "column"))
		}
		if in.want != "" {
			record = record[wanted : wanted+1]
		}
		for _, value := range record {
			rows.add(value)
		}
		rows.endRow()
	}
}

// counted is a number with its noun: 1 value, 2 values.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// checkHeader checks the names of the columns, and that the wanted is there.
func checkHeader(path string, names []string, want string) error {
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] {
			return fmt.Errorf("%s:1: there are two columns %q: rename one", path, name)
		}
		seen[name] = true
	}
	if want != "" && !seen[want] {
		return fmt.Errorf("%s:1: there is no column %q: choose one of %s", path, want, list(names))
	}
	return nil
}

// csvError says where and why a file is no CSV.
func csvError(path string, err error) error {
	at, ok := errors.AsType[*csv.ParseError](err)
	if !ok {
		return fmt.Errorf("read %s: %w", path, err)
	}
	what := at.Err.Error()
	switch {
	case errors.Is(err, csv.ErrBareQuote):
		what = `a quote within a value that does not begin with one: put the value in quotes and double those in it`
	case errors.Is(err, csv.ErrQuote):
		what = `a quoted value lacks its closing quote, or has text after it: close it, and write two quotes for one within it`
	}
	if at.StartLine != at.Line { // a quote left open swallows lines
		what += fmt.Sprintf("; the row begins on line %d", at.StartLine)
	}
	return fmt.Errorf("%s:%d:%d: %s", path, at.Line, at.Column, what)
}
