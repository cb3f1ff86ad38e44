// Package feed supplies the values of a request's placeholders: whole numbers
// by a distribution, or the rows of a file.
package feed

import (
	"fmt"
	"strconv"

	"loadstone/lab/load/seed"
)

// Feed says where values come from: exactly one of its first five fields.
type Feed struct {
	// Uniform draws whole numbers from [Uniform[0], Uniform[1]], ends included.
	Uniform *[2]int64 `json:"uniform,omitempty"`
	// Sequential counts from Sequential[0] to Sequential[1] and starts again.
	Sequential *[2]int64 `json:"sequential,omitempty"`
	// Zipf draws whole numbers, the lower the more often.
	Zipf *Zipf `json:"zipf,omitempty"`
	// CSV takes the rows of a file whose first line names its columns.
	CSV *File `json:"csv,omitempty"`
	// JSONL takes the lines of a file, each a JSON object.
	JSONL *File `json:"jsonl,omitempty"`

	// PerVU gives every virtual user a walk of its own: the value follows from
	// the user and from how many iterations that user has begun. Without it the
	// walk is shared: the value follows from the number of the iteration.
	PerVU bool `json:"per_vu,omitempty"`
}

// Zipf is a Zipf distribution over the whole numbers from Low to High, ends
// included: the k-th of them is drawn with probability proportional to
// k^-Exponent.
type Zipf struct {
	Low  int64 `json:"low"`
	High int64 `json:"high"`
	// Exponent is above 0; 0.99 is YCSB's, 1 is Zipf's law.
	Exponent float64 `json:"exponent"`
}

// File is a file of rows.
type File struct {
	Path string `json:"path"`
	// Column is the column (the key) whose value a placeholder of the feed's
	// name takes. If it is empty, placeholders name it: {user.email} is column
	// email of feed user, and all of an iteration come from one row.
	Column string `json:"column,omitempty"`
	// Random draws rows at random; else they come in order, again and again.
	Random bool `json:"random,omitempty"`
}

// Position is where in a load a value is wanted.
type Position struct {
	Iteration uint64 // its number in its scenario, from 0
	VU        int    // the virtual user's index in its scenario, from 0
	Own       uint64 // how many iterations that user began before
}

// Set is the feeds of one scenario, ready for use. It does not change and is
// safe for concurrent use.
type Set struct {
	byName  map[string]int
	columns []column
}

// column is one value source.
type column struct {
	lo         int64
	span       uint64
	key        uint64
	sequential bool
	perVU      bool
}

// Column is a source of values for one placeholder, of the Set that it is from.
type Column int

// Validate returns what is wrong with the feed, or nil. It opens no file.
func (f Feed) Validate() error {
	if (f.Uniform == nil) == (f.Sequential == nil) {
		return fmt.Errorf("give it either uniform or sequential")
	}
	return nil
}

// Open makes the feeds of a scenario ready. It reads their files.
func Open(master uint64, scenario string, feeds map[string]Feed) (*Set, error) {
	s := &Set{byName: map[string]int{}}
	for name, f := range feeds {
		c := column{key: seed.Derive(master, scenario, "feed", name), perVU: f.PerVU}
		bounds := f.Uniform
		if f.Sequential != nil {
			bounds, c.sequential = f.Sequential, true
		}
		if bounds == nil {
			return nil, fmt.Errorf("feed %q: only uniform and sequential can be used", name)
		}
		c.lo, c.span = bounds[0], uint64(bounds[1])-uint64(bounds[0])+1
		s.byName[name] = len(s.columns)
		s.columns = append(s.columns, c)
	}
	return s, nil
}

// Lookup returns the source for a placeholder: a feed's name, or
// feed.column. It is false if no feed has it.
func (s *Set) Lookup(placeholder string) (Column, bool) {
	i, ok := s.byName[placeholder]
	return Column(i), ok
}

// Append appends the value of c at a position.
func (s *Set) Append(dst []byte, c Column, at Position) []byte {
	v := &s.columns[c]
	key, k := v.key, at.Iteration
	if v.perVU {
		key, k = seed.Derive(v.key, strconv.Itoa(at.VU)), at.Own
	}
	if v.sequential {
		return strconv.AppendInt(dst, v.lo+int64(k%max(v.span, 1)), 10)
	}
	return strconv.AppendInt(dst, int64(uint64(v.lo)+seed.Below(seed.At(key, k), v.span)), 10)
}
