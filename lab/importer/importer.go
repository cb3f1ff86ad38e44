// Package importer turns what other tools keep of requests into a load file: a HAR that a
// browser recorded, an OpenAPI description, a Postman collection.
//
// It sends nothing and opens no file but those that an OpenAPI description refers to. What
// it writes is what package experiment reads; a load that does not read is an error here
// and not at whoever runs it.
//
// # Secrets
//
// A recording has the credentials of whoever recorded it. Header fields and values that
// carry such are not written: what is left out, and where, is in Load.Notes, which stand as
// comments at the head of the file too. Cookies need no writing, as the generator keeps
// those that answers set. A token that an earlier answer of the recording brought is taken
// from that answer again (see correlate).
package importer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"loadstone/lab/experiment"
	"loadstone/lab/load"
)

// Load is a load that was made of something else.
type Load struct {
	From     string // what it was made of, in words: the HAR page.har
	Target   string // a base URL; empty if nothing says it
	Scenario string // its name
	Weighted bool   // an iteration is one of the steps
	Parts    []Part
	Feeds    []Feed
	// Notes say what was left out or has to be looked at, a sentence each.
	Notes []string

	names map[string]bool // of steps
}

// Part is a step, or several that are made at once.
type Part struct {
	Steps []Step
	Lanes int // at once; 0 if there is one step
}

// Step is one request.
type Step struct {
	Name    string
	Request load.Request
	// Expected is the status that is right, if it is not one below 400.
	Expected int
	Think    time.Duration // the pause after it
	Checks   []load.Check
	Extract  []Extracted

	answer string // the recorded one, if it is JSON
}

// Extracted is a value that later steps use.
type Extracted struct{ Name, JSON string }

// Feed is where the values of a placeholder come from.
type Feed struct {
	Name      string
	Low, High int64
}

// Options are what the user says beside what is imported.
type Options struct {
	// Target is a base URL in place of the one that is found.
	Target string
	// Variables are the values of a Postman collection's variables.
	Variables map[string]string
	// Writing has an OpenAPI description's operations that change something be in the
	// load as well.
	Writing bool
	// Secrets has what carries credentials be written as it is.
	Secrets bool
}

// steps are all steps of the load, in turn.
func (l *Load) steps() []*Step {
	var out []*Step
	for i := range l.Parts {
		for k := range l.Parts[i].Steps {
			out = append(out, &l.Parts[i].Steps[k])
		}
	}
	return out
}

// notef adds a note, once.
func (l *Load) notef(format string, args ...any) {
	if note := fmt.Sprintf(format, args...); !slices.Contains(l.Notes, note) {
		l.Notes = append(l.Notes, note)
	}
}

// cut keeps as many steps as a load may have.
func (l *Load) cut() {
	all, most := len(l.steps()), experiment.MaxSteps
	if all <= most {
		return
	}
	l.notef("it has %d requests, and a load has %d steps at most: the others are left out", all, most)
	for i := range l.Parts {
		l.Parts[i].Steps = l.Parts[i].Steps[:min(most, len(l.Parts[i].Steps))]
		most -= len(l.Parts[i].Steps)
	}
	l.Parts = slices.DeleteFunc(l.Parts, func(p Part) bool { return len(p.Steps) == 0 })
}

// finish makes the file.
func (l *Load) finish(o Options) ([]byte, error) {
	l.Target = cmp.Or(o.Target, l.Target)
	if len(l.steps()) == 0 {
		return nil, fmt.Errorf("%s has no request that a load can make%s", l.From, l.why())
	}
	data := l.yaml()
	if _, err := experiment.ParseLoad("load.yaml", data); err != nil {
		return nil, fmt.Errorf("make a load of %s: %w", l.From, err)
	}
	return data, nil
}

// why are the notes, for a load of nothing.
func (l *Load) why() string {
	if len(l.Notes) == 0 {
		return ""
	}
	return ": " + strings.Join(l.Notes, "; ")
}

// unique makes of a name one that a step can have and no other has.
func (l *Load) unique(name string) string {
	const most = 55 // and a number behind it
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '-'
	}, name)
	for strings.Contains(name, "--") {
		name = strings.ReplaceAll(name, "--", "-")
	}
	name = cmp.Or(strings.Trim(name[:min(len(name), most)], "._-"), "step")
	if l.names == nil {
		l.names = map[string]bool{}
	}
	out := name
	for n := 2; l.names[out]; n++ {
		out = fmt.Sprintf("%s-%d", name, n)
	}
	l.names[out] = true
	return out
}

// nameOf is a name for a request that has none: by the end of its path, and its method if
// that is not GET.
func nameOf(method, path string) string {
	path, _, _ = strings.Cut(path, "?")
	segments := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	name := "home"
	if n := len(segments); n > 0 {
		name = strings.Join(segments[max(0, n-2):], "-")
	}
	if method != "GET" {
		name = strings.ToLower(method) + "-" + name
	}
	return name
}
