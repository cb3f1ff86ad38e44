package csvfile

import (
	"errors"
	"fmt"
	"strings"

	"loadstone/system/results"
)

// layout says at which position of a row each column is; absent optional columns
// are at notThere.
type layout struct {
	columns                                          int // in a row
	id, name, sex, school, region, birthDate, stream int
	subjects                                         [subjectCount]int // by results.Subject, from English on
	passMark, code                                   int
}

const (
	subjectCount = int(results.Civics-results.English) + 1
	notThere     = -1
)

// newLayout reads the header. Its error lists everything that is wrong with it.
func newLayout(file string, header []string) (layout, error) {
	positions := map[string]int{}
	for _, column := range Columns() {
		positions[column.Name] = notThere
	}
	var problems []error
	add := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("%s:1: "+format, append([]any{file}, args...)...))
	}
	// More are a row without a line end, and an error for each would be of no use.
	if most := 2 * len(positions); len(header) > most {
		add("the header has %d columns, of which %d are known: write a header of at most %d, and one row per line",
			len(header), len(positions), most)
		return layout{}, headerError(problems)
	}
	if hint := separatorHint(header); hint != "" {
		add("%s", hint)
		return layout{}, headerError(problems)
	}
	for i, name := range header {
		position, known := positions[name]
		switch {
		case !known:
			add("column %.40q is unknown: %s", name, meant(name, positions))
		case position != notThere:
			add("column %.40q is there twice: delete one", name)
		default:
			positions[name] = i
		}
	}
	for _, column := range Columns() {
		if positions[column.Name] == notThere && !column.Optional {
			add("column %q is missing: %s", column.Name, column.Meaning)
		}
	}
	if len(problems) > 0 {
		return layout{}, headerError(problems)
	}
	l := layout{
		columns: len(header),
		id:      positions["id"], name: positions["name"], sex: positions["sex"], school: positions["school"],
		region: positions["region"], birthDate: positions["birth_date"], stream: positions["stream"],
		passMark: positions["pass_mark"], code: positions["code"],
	}
	for _, subject := range results.Subjects() {
		l.subjects[subject-results.English] = positions[subject.String()]
	}
	return l, nil
}

func headerError(problems []error) error {
	return fmt.Errorf("%w:\n%w", results.ErrInput, errors.Join(problems...))
}

// separatorHint recognises a file that is separated by something else.
func separatorHint(header []string) string {
	if len(header) != 1 {
		return ""
	}
	for _, separator := range [...]struct{ char, name string }{{";", "semicolons"}, {"\t", "tabs"}, {"|", "bars"}} {
		if strings.Contains(header[0], separator.char) {
			return "the columns are separated by " + separator.name + ": write commas"
		}
	}
	return ""
}

// meant says what to write instead of an unknown column.
func meant(name string, known map[string]int) string {
	plain := strings.NewReplacer(" ", "_", "-", "_").Replace(strings.ToLower(strings.TrimSpace(name)))
	if _, ok := known[plain]; ok {
		return "write " + plain
	}
	return "delete it, or give it one of the known names"
}
