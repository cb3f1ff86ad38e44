package feed

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"loadstone/block/spelling"
	"loadstone/lab/load/seed"
)

// Position is where in a load a value is wanted.
type Position struct {
	Iteration uint64 // its number in its scenario, from 0
	VU        int    // the virtual user's index in its scenario, from 0
	Own       uint64 // how many iterations that user began before
}

// Set is the feeds of one scenario, ready for use. It does not change and is
// safe for concurrent use.
type Set struct {
	byName  map[string]Column
	columns []column
	files   map[string]rowsOf // by feed, those whose columns placeholders name
}

// rowsOf is a file whose columns placeholders name.
type rowsOf struct {
	path    string
	columns []string
}

// Column is a source of values for one placeholder, of the Set that it is from.
type Column int

// column is one source of values. The columns of one feed share its key, so
// that they agree on the row.
type column struct {
	source source
	perVU  bool
	key    uint64
	// Numbers: the lowest, and how many there are; 0 stands for 2⁶⁴.
	low  int64
	span uint64
	zipf zipf
	// Rows.
	rows  *table
	field int
}

// source is how a column gets from the number of a draw to a value.
type source uint8

const (
	uniform source = iota
	sequential
	zipfian
	rowsInOrder
	rowsAtRandom
)

// Open makes the feeds of a scenario ready. It reads their files. The error has
// all feeds that cannot be used, each with the file, line and column where that
// is at fault.
func Open(master uint64, scenario string, feeds map[string]Feed) (*Set, error) {
	s := &Set{byName: map[string]Column{}, files: map[string]rowsOf{}}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(feeds)) { // the same columns and the same errors each time
		if err := s.open(name, feeds[name], seed.Derive(master, scenario, "feed", name)); err != nil {
			errs = append(errs, fmt.Errorf("feed %q: %w", name, err))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return s, nil
}

// open adds the columns of one feed.
func (s *Set) open(name string, f Feed, key uint64) error {
	if err := f.Validate(); err != nil {
		return err
	}
	c := column{perVU: f.PerVU, key: key}
	switch {
	case f.Uniform != nil:
		c.source = uniform
		c.low, c.span = f.Uniform[0], uint64(f.Uniform[1])-uint64(f.Uniform[0])+1
	case f.Sequential != nil:
		c.source = sequential
		c.low, c.span = f.Sequential[0], uint64(f.Sequential[1])-uint64(f.Sequential[0])+1
	case f.Zipf != nil:
		c.source = zipfian
		c.low, c.zipf = f.Zipf.Low, newZipf(uint64(f.Zipf.High)-uint64(f.Zipf.Low)+1, f.Zipf.Exponent)
	case f.CSV != nil:
		return s.openFile(name, c, f.CSV, readCSV)
	default:
		return s.openFile(name, c, f.JSONL, readJSONL)
	}
	return s.add(name, c)
}

// openFile adds a column for each that can be looked up of a file. c has what
// they share.
func (s *Set) openFile(name string, c column, file *File, read reader) error {
	rows, names, err := readFile(file, read)
	if err != nil {
		return err
	}
	c.source, c.rows = rowsInOrder, rows
	if file.Random {
		c.source = rowsAtRandom
	}
	if file.Column != "" {
		return s.add(name, c)
	}
	s.files[name] = rowsOf{path: file.Path, columns: names}
	for i, column := range names {
		c.field = i
		if err := s.add(name+"."+column, c); err != nil {
			return err
		}
	}
	if len(names) == 1 { // there is nothing to choose
		return s.add(name, c)
	}
	return nil
}

// add enters a column under the name of its placeholder.
func (s *Set) add(placeholder string, c column) error {
	if _, taken := s.byName[placeholder]; taken {
		return fmt.Errorf("another feed has values for {%s} too: rename one of them", placeholder)
	}
	s.byName[placeholder] = Column(len(s.columns))
	s.columns = append(s.columns, c)
	return nil
}

// Lookup returns the source for a placeholder: a feed's name, or feed.column
// for a file of which no column was chosen. It is false if no feed has it.
func (s *Set) Lookup(placeholder string) (Column, bool) {
	c, ok := s.byName[placeholder]
	return c, ok
}

// Find is Lookup with an error that says what there is.
func (s *Set) Find(placeholder string) (Column, error) {
	if c, ok := s.byName[placeholder]; ok {
		return c, nil
	}
	name, column, _ := strings.Cut(placeholder, ".")
	file, ok := s.files[name]
	switch {
	case !ok:
		return 0, fmt.Errorf("no feed has values for {%s}: add one", placeholder)
	case column == "":
		return 0, fmt.Errorf("%s has the columns %s, and {%s} names none of them: write {%s.%s}", file.path, list(file.columns), placeholder, name, file.columns[0])
	}
	if near, ok := spelling.Nearest(column, file.columns); ok {
		return 0, fmt.Errorf("%s has no column %q for {%s}: write {%s.%s}", file.path, column, placeholder, name, near)
	}
	return 0, fmt.Errorf("%s has no column %q for {%s}, only %s: write {%s.%s}", file.path, column, placeholder, list(file.columns), name, file.columns[0])
}

// Names returns what can be looked up, in alphabetical order.
func (s *Set) Names() []string { return slices.Sorted(maps.Keys(s.byName)) }

// Append appends the value of c at a position, as it is. A value from a file
// may have any bytes, line ends and quotes among them: where those would end
// the field of a message that they are put into, the caller has to see to it.
// It allocates nothing if dst has room.
func (s *Set) Append(dst []byte, c Column, at Position) []byte {
	v := &s.columns[c]
	number, text := v.at(at)
	if v.rows != nil {
		return append(dst, text...)
	}
	return strconv.AppendInt(dst, number, 10)
}

// at returns the value at a position: a number, or the text of a row.
func (v *column) at(at Position) (number int64, text []byte) {
	key, k := v.key, at.Iteration
	if v.perVU {
		// A stream for each user, keyed by the user's element of the feed's.
		key, k = seed.At(v.key, uint64(at.VU)), at.Own
	}
	switch v.source {
	case sequential:
		if v.span != 0 {
			k %= v.span
		}
		return int64(uint64(v.low) + k), nil
	case zipfian:
		return int64(uint64(v.low) + v.zipf.rank(seed.At(key, k)) - 1), nil
	case rowsInOrder:
		return 0, v.rows.value(k%v.rows.count, v.field)
	case rowsAtRandom:
		return 0, v.rows.value(seed.Below(seed.At(key, k), v.rows.count), v.field)
	default:
		return int64(uint64(v.low) + seed.Below(seed.At(key, k), v.span)), nil
	}
}
