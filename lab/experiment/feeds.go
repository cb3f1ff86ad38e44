package experiment

import (
	"fmt"
	"slices"
	"strings"

	"loadstone/block/spelling"
)

// feeds reads where the values of placeholders come from.
func (f field) feeds() map[string]Feed {
	if !f.given() {
		return nil
	}
	if f.n.kind != mapping {
		f.wrong("a mapping")
		return nil
	}
	out := make(map[string]Feed, len(f.n.pairs))
	for _, p := range f.n.pairs {
		name := p.key.text
		out[name] = Feed{}
		if !feedForm.MatchString(name) {
			f.errorf(p.key, "%s cannot name a feed; write letters, digits and _", spelling.Quote(name))
			continue
		}
		out[name] = f.feed(p)
	}
	return out
}

func (f field) feed(p pair) Feed {
	name := p.key.text
	example := name + ": {uniform: [1, 1000]}"
	s := f.section(p.value, p.key, "feed "+spelling.Quote(name), example)
	if s == nil {
		return Feed{}
	}
	kinds := []field{
		s.may("uniform", "uniform: [1, 1000]"), s.may("sequential", "sequential: [1, 1000]"), s.may("zipf", "zipf: [1, 1000, 0.99]"),
		s.may("csv", "csv: users.csv"), s.may("jsonl", "jsonl: users.jsonl"),
	}
	perVU := s.may("perVU", "perVU: true")
	s.done()
	var given []string
	for _, k := range kinds {
		if k.n != nil {
			given = append(given, k.key)
		}
	}
	switch {
	case len(given) > 1:
		s.errorf(p.key, "feed %s is both %s and %s; write one of the two", spelling.Quote(name), given[0], given[1])
		return Feed{}
	case len(given) == 0 && len(p.value.pairs) == 0:
		s.errorf(p.key, "feed %s is empty; write %s", spelling.Quote(name), example)
	case len(given) == 0 && perVU.n != nil:
		s.errorf(p.key, "feed %s has no values; write %s", spelling.Quote(name), "uniform: [1, 1000] beside perVU")
	}
	return Feed{
		Uniform: kinds[0].interval(), Sequential: kinds[1].interval(), Zipf: kinds[2].zipf(),
		CSV: kinds[3].rows("a CSV file"), JSONL: kinds[4].rows("a file of JSON lines"), PerVU: perVU.boolean(),
	}
}

// interval reads [low, high], whole numbers with low <= high.
func (f field) interval() *[2]int64 {
	if !f.given() {
		return nil
	}
	if f.n.kind != list || len(f.n.items) != 2 {
		f.errorf(f.n, "%s must be two whole numbers, the first and the last; write %s", f.key, f.example)
		return nil
	}
	var ends [2]int64
	before := len(f.errs)
	for i, n := range f.n.items {
		ends[i] = f.part("each number of "+f.key, n).end()
	}
	if len(f.errs) > before {
		return nil
	}
	if ends[0] > ends[1] {
		f.errorf(f.n, "%s goes from %d down to %d; write %s: [%d, %d]", f.key, ends[0], ends[1], f.key, ends[1], ends[0])
		return nil
	}
	return &ends
}

// part is the field of one item of a list.
func (f field) part(key string, n *node) field {
	return field{decoder: f.decoder, key: key, example: f.example, n: n, place: f.place, broken: !f.plain(n)}
}

// end reads one end of an interval.
func (f field) end() int64 {
	// Within this bound the number of values fits an int64.
	const most = 1 << 62
	return f.whole(-most, most-1)
}

// mostRanks is how many numbers a Zipf distribution may be over, as in package
// feed.
const mostRanks = 1 << 53

// zipf reads [low, high, exponent], or the three by name.
func (f field) zipf() *Zipf {
	if !f.given() {
		return nil
	}
	var low, high, exponent field
	before := len(f.errs)
	switch {
	case f.n.kind == list && len(f.n.items) == 3:
		items := f.n.items
		low, high, exponent = f.part("low of zipf", items[0]), f.part("high of zipf", items[1]), f.part("the exponent of zipf", items[2])
	case f.n.kind == mapping:
		s := f.section(f.n, f.place, "zipf", f.example)
		if s == nil {
			return nil
		}
		wrong := hint{"write exponent", "exponent"}
		s.hints = map[string]hint{"s": wrong, "skew": wrong, "theta": wrong, "alpha": wrong}
		low, high, exponent = s.need("low", "low: 1"), s.need("high", "high: 1000"), s.need("exponent", "exponent: 0.99")
		s.done()
	default:
		f.errorf(f.n, "zipf must be the lowest number, the highest and the exponent; write %s", f.example)
		return nil
	}
	const least, most = 0.001, 20 // nearly uniform, and nearly always the first
	z := Zipf{Low: low.end(), High: high.end(), Exponent: exponent.factor(least, most)}
	if len(f.errs) > before {
		return nil
	}
	if uint64(z.High)-uint64(z.Low) >= mostRanks && z.Low <= z.High {
		f.errorf(f.n, "zipf goes over more than 2^53 numbers; write ends that are nearer to each other")
		return nil
	}
	if z.Low > z.High {
		f.errorf(f.n, "zipf goes from %d down to %d; write zipf: [%d, %d, %g]", z.Low, z.High, z.High, z.Low, z.Exponent)
		return nil
	}
	return &z
}

// rows reads which file has the values: its path, or file, column and order.
func (f field) rows(what string) *Rows {
	if !f.given() {
		return nil
	}
	r := &Rows{Order: inOrder}
	if f.n.kind != mapping {
		r.File = f.file(what)
		return r
	}
	s := f.section(f.n, f.place, f.key, f.example)
	if s == nil {
		return nil
	}
	file := s.need("file", "file: users."+f.key)
	r.File = file.file(what)
	r.Column = s.may("column", "column: email").text()
	if order := s.may("order", "order: random"); order.given() {
		r.Order = order.oneOf(inOrder, atRandom)
	}
	s.done()
	return r
}

// The orders in which the rows of a file come.
const (
	inOrder  = "sequential"
	atRandom = "random"
)

// rows returns the file of a feed, or nil.
func (f Feed) rows() *Rows {
	if f.CSV != nil {
		return f.CSV
	}
	return f.JSONL
}

// match refuses a placeholder that nothing supplies a value for, and returns
// the names of the feeds that are used.
func (s *section) match(it *iteration, feeds map[string]Feed) map[string]bool {
	used, seen := make(map[string]bool), make(map[string]bool)
	for _, t := range it.takings {
		if _, ok := feeds[t.key.text]; ok {
			t.used = true
			s.errorf(t.key, "%s is extracted here and is a feed; write another name for one of the two", spelling.Quote(t.key.text))
		}
	}
	for _, u := range it.uses {
		// Each placeholder that is wrong is reported where it is first.
		for _, m := range placeholderForm.FindAllStringSubmatch(u.n.text, -1) {
			written := m[1]
			name, column, dotted := strings.Cut(written, ".")
			feed, fed := feeds[name]
			var wrong string
			switch {
			case dotted && column == "":
				used[name] = true
				wrong = fmt.Sprintf("the placeholder {%s} names no column; write {%s}, or {%s.column}", written, name, name)
			case fed:
				used[name] = true
				if wrong = feed.wrongColumn(name, column); wrong == "" && column != "" {
					s.columns = append(s.columns, columnUse{n: u.n, scenario: it.scenario, feed: name, placeholder: written})
				}
			case it.has(name):
				wrong = it.take(u, written, name)
			default:
				wrong = it.unfed(u, written, name)
			}
			if wrong != "" && !seen[written] {
				seen[written] = true
				s.errorf(u.n, "%s", wrong)
			}
		}
	}
	return used
}

// wrongColumn says what is wrong with {name.column} of a feed, "" for nothing.
func (f Feed) wrongColumn(name, column string) string {
	rows := f.rows()
	switch {
	case f == (Feed{}), rows != nil && rows.File == "": // broken, and reported
	case rows == nil && column != "":
		return fmt.Sprintf("the feed %s has no columns, and the placeholder {%s.%s} names one; write {%s}", spelling.Quote(name), name, column, name)
	case rows != nil && rows.Column == "" && column == "":
		return fmt.Sprintf("the feed %s is a file of rows, and the placeholder {%s} names no column; write {%s.column}, or column: in the feed", spelling.Quote(name), name, name)
	case rows != nil && rows.Column != "" && column != "":
		return fmt.Sprintf("the feed %s is the column %s, and the placeholder {%s.%s} names one too; write {%s}, or remove column from the feed", spelling.Quote(name), spelling.Quote(rows.Column), name, column, name)
	}
	return ""
}

// has reports whether any step extracts a value of that name.
func (it *iteration) has(name string) bool {
	return slices.ContainsFunc(it.takings, func(t *taking) bool { return t.key.text == name })
}

// take marks what a placeholder uses, and says what is wrong with that.
func (it *iteration) take(u use, written, name string) string {
	if written != name {
		it.reported(name)
		return fmt.Sprintf("the placeholder {%s} names a column, and {%s} is one value that a step extracts; write {%s}", written, name, name)
	}
	found, first := false, ""
	for _, t := range it.takings {
		if t.key.text != name {
			continue
		}
		if t.step < u.step && !it.weighted {
			t.used, found = true, true
		} else if first == "" {
			first = it.names[t.step]
		}
	}
	if found {
		return ""
	}
	it.reported(name)
	switch {
	case it.weighted:
		return fmt.Sprintf("the placeholder {%s} is extracted by step %s, and an iteration of a weighted scenario makes one step only; remove weighted, or write a feed", name, spelling.Quote(first))
	case first == it.names[u.step]:
		return fmt.Sprintf("the placeholder {%s} is used in the step that extracts it; extract it in an earlier step", name)
	default:
		return fmt.Sprintf("the placeholder {%s} is used before step %s has extracted it; write that step first", name, spelling.Quote(first))
	}
}

// reported marks the values of a name as used: what is wrong with them is said.
func (it *iteration) reported(name string) {
	for _, t := range it.takings {
		t.used = t.used || t.key.text == name
	}
}

// unfed says what to write for a placeholder that nothing supplies.
func (it *iteration) unfed(u use, written, name string) string {
	instead := fmt.Sprintf("write feed: {%s: {uniform: [1, 1000]}}", name)
	if written != name {
		instead = fmt.Sprintf("write feed: {%s: {csv: %ss.csv}}", name, name)
	}
	if u.step > 0 && written == name {
		instead += ", or extract it in an earlier step"
	}
	if u.isBody {
		instead += fmt.Sprintf(", or { %s } with spaces if it is no placeholder", written)
	}
	return fmt.Sprintf("the placeholder {%s} has no feed; %s", written, instead)
}

// unused refuses a feed that no placeholder names.
func (f field) unused(used map[string]bool, feeds map[string]Feed) {
	if !f.given() {
		return
	}
	for _, p := range f.n.pairs {
		name := p.key.text
		if used[name] || !feedForm.MatchString(name) {
			continue
		}
		written := name
		if rows := feeds[name].rows(); rows != nil && rows.Column == "" {
			written += ".column"
		}
		f.errorf(p.key, "feed %s is not used; write {%s} in the request, or remove the feed", spelling.Quote(name), written)
	}
}

// unusedTakings refuses a value that is extracted for nobody.
func (s *section) unusedTakings(it *iteration) {
	for _, t := range it.takings {
		if name := t.key.text; !t.used && feedForm.MatchString(name) {
			s.errorf(t.key, "no later step uses what is extracted here; write {%s} in one, or remove it", name)
		}
	}
}
