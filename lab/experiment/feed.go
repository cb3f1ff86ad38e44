package experiment

import (
	"reflect"
	"strings"

	"loadstone/block/spelling"
)

// Feed supplies the values of one placeholder: exactly one of its keys but
// perVU.
type Feed struct {
	// Draws whole numbers at random from the first to the second, both included.
	Uniform *Range `key:"uniform" eg:"[1, 1000]"`
	// Counts from the first to the second, both included, and starts again.
	Sequential *Range `key:"sequential" eg:"[1, 1000]"`
	// Draws whole numbers, the lower the more often: [low, high, exponent], or
	// the three by name. An exponent of 1 is Zipf's law, 0.99 is YCSB's.
	Zipf *Zipf `key:"zipf" eg:"[1, 1000, 0.99]"`
	// Takes the rows of a CSV file, whose first line names the columns: its
	// path relative to this file, or file, column and order. {user.email} is
	// the column email of the feed user.
	CSV *Rows `key:"csv" eg:"users.csv" path:"a CSV file"`
	// Takes the lines of a file, each a JSON object: its path relative to this
	// file, or file, column and order. {user.email} is the key email of the
	// feed user.
	JSONL *Rows `key:"jsonl" eg:"users.jsonl" path:"a file of JSON lines"`
	// Gives every virtual user a walk of its own through the values. They share
	// one otherwise.
	PerVU bool `key:"perVU" eg:"true" default:"false"`
}

// Range is the first and the last of some whole numbers.
type Range [2]int64

// Zipf is a Zipf distribution over whole numbers.
type Zipf struct {
	// The number that is drawn most.
	Low int64 `key:"low,need" eg:"1" max:"4611686018427387903" min:"-4611686018427387904"`
	// The number that is drawn least.
	High int64 `key:"high,need" eg:"1000" max:"4611686018427387903" min:"-4611686018427387904"`
	// The k-th number is drawn with a probability proportional to k^-exponent.
	Exponent float64 `key:"exponent,need" eg:"0.99" max:"20" min:"0.001"`
}

// Rows is a file of rows.
type Rows struct {
	// Path of the file, relative to this file.
	File string `key:"file,need" eg:"users.csv" path:"a file of rows"`
	// The column whose value {name} takes. Without it placeholders name their
	// column, as in {user.email}.
	Column string `key:"column" eg:"email"`
	// sequential takes the rows in order, again and again; random draws them.
	Order string `key:"order" eg:"random" default:"sequential" enum:"sequential|random"`
}

// atRandom is the order of rows that are drawn.
const atRandom = "random"

// mostRanks is how many numbers a Zipf distribution may be over, as in package
// feed.
const mostRanks = 1 << 53

func (f *Feed) check(s *section) {
	name := spelling.Quote(s.place.text)
	switch given := s.given("uniform", "sequential", "zipf", "csv", "jsonl"); {
	case len(given) > 1:
		s.errorf(s.place, "feed %s is both %s and %s; write one of the two", name, given[0].key, given[1].key)
		*f = Feed{}
	case len(given) == 0 && len(s.n.pairs) == 0:
		s.errorf(s.place, "feed %s is empty; write %s: {uniform: [1, 1000]}", name, s.place.text)
	case len(given) == 0 && s.fields["perVU"].n != nil:
		s.errorf(s.place, "feed %s has no values; write uniform: [1, 1000] beside perVU", name)
	}
}

func (to *Range) read(f field) {
	if f.n.kind != list || len(f.n.items) != 2 {
		f.errorf(f.n, "%s must be two whole numbers, the first and the last; write %s", f.key, f.example)
		return
	}
	before := len(f.errs)
	to[0], to[1] = f.end("each number of "+f.key, f.n.items[0]), f.end("each number of "+f.key, f.n.items[1])
	if len(f.errs) == before && to[0] > to[1] {
		f.errorf(f.n, "%s goes from %d down to %d; write %s: [%d, %d]", f.key, to[0], to[1], f.key, to[1], to[0])
	}
}

// end reads one end of an interval. Within its bounds the number of values fits
// an int64.
func (f field) end(key string, n *node) int64 {
	f = f.item(key, n)
	f.tag = tag{`min:"-4611686018427387904" max:"4611686018427387903"`}
	if !f.given() {
		return 0
	}
	return f.whole()
}

// short reads [low, high, exponent].
func (z *Zipf) short(f field) bool {
	switch {
	case f.n.kind == mapping:
		return false
	case f.n.kind != list || len(f.n.items) != 3:
		f.errorf(f.n, "zipf must be the lowest number, the highest and the exponent; write %s", f.example)
		return true
	}
	before := len(f.errs)
	z.Low, z.High = f.end("low of zipf", f.n.items[0]), f.end("high of zipf", f.n.items[1])
	exponent := f.item("the exponent of zipf", f.n.items[2])
	exponent.tag = keysOf(reflect.TypeFor[Zipf]())[2].tag
	if exponent.given() {
		z.Exponent = exponent.factor()
	}
	if len(f.errs) == before {
		z.checkRanks(f)
	}
	return true
}

func (z *Zipf) check(s *section) {
	if low, high, exponent := s.fields["low"], s.fields["high"], s.fields["exponent"]; low.sound && high.sound && exponent.sound {
		z.checkRanks(field{decoder: s.decoder, n: s.n})
	}
}

// checkRanks checks how many numbers there are.
func (z *Zipf) checkRanks(f field) {
	switch {
	case z.Low > z.High:
		f.errorf(f.n, "zipf goes from %d down to %d; write zipf: [%d, %d, %g]", z.Low, z.High, z.High, z.Low, z.Exponent)
	case uint64(z.High)-uint64(z.Low) >= mostRanks:
		f.errorf(f.n, "zipf goes over more than 2^53 numbers; write ends that are nearer to each other")
	}
}

func (*Zipf) prepare(s *section) {
	wrong := hint{"write exponent", "exponent"}
	s.hints = map[string]hint{"s": wrong, "skew": wrong, "theta": wrong, "alpha": wrong}
}

func (*Rows) prepare(s *section) { s.examples = strings.NewReplacer("csv", s.what) }

// short reads the path of a file.
func (r *Rows) short(f field) bool {
	if f.n.kind == mapping {
		return false
	}
	fillIn(r)
	r.File = f.path(f.tag.Get("path"))
	return true
}

// rows returns the file of a feed, or nil.
func (f *Feed) rows() *Rows {
	if f.CSV != nil {
		return f.CSV
	}
	return f.JSONL
}

func (*Feed) rules(s *schema) { s.OneOf = exactlyOne("uniform", "sequential", "zipf", "csv", "jsonl") }

func (*Range) describe(*generator, tag) *schema {
	return &schema{Type: "array", Items: &schema{Type: "integer"}, MinItems: count64(2), MaxItems: count64(2)}
}

func (*Zipf) shortSchema() *schema {
	return &schema{Type: "array", Items: &schema{Type: "number"}, MinItems: count64(3), MaxItems: count64(3)}
}

func (*Rows) shortSchema() *schema { return &schema{Type: "string", Pattern: nonEmpty} }
