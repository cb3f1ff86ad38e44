package importer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// correlate has steps take from earlier answers what the recorded requests had from there:
// a token, an id of what was made. A value counts if it is long and mixed enough not to be
// the same by chance, and stands in a request as a whole.
func (l *Load) correlate() {
	var known []answered
	for i := range l.Parts {
		p := &l.Parts[i]
		for k := range p.Steps { // of earlier parts only: what is made at once does not see each other
			l.useAnswers(&p.Steps[k], known)
		}
		for k := range p.Steps {
			s := &p.Steps[k]
			for _, v := range valuesOf(s.answer) {
				known = append(known, answered{from: s, value: v})
			}
		}
	}
}

// answered is a value of an answer. name is its placeholder, once there is one.
type answered struct {
	value

	from *Step
	name string
}

// value is a value in a JSON text.
type value struct{ path, key, text string }

const (
	shortestValue = 8
	longestValue  = 4096
	maxValues     = 1000 // of an answer
)

var (
	simpleKey  = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	tokenLike  = regexp.MustCompile(`^[A-Za-z0-9._~+/=:-]+$`)
	hasDigit   = regexp.MustCompile(`[0-9]`)
	notOfAName = regexp.MustCompile(`[^A-Za-z0-9_]`)
	wordLike   = regexp.MustCompile(`^[A-Za-z0-9_-]$`)
)

// valuesOf are the values of an answer that can be known again.
func valuesOf(answer string) []value {
	d := json.NewDecoder(bytes.NewReader([]byte(answer)))
	d.UseNumber()
	var root any
	if d.Decode(&root) != nil {
		return nil
	}
	var out []value
	var walk func(v any, path, key string)
	walk = func(v any, path, key string) {
		join := func(next string) string { return strings.TrimPrefix(path+"."+next, ".") }
		switch v := v.(type) {
		case map[string]any:
			for _, k := range slices.Sorted(maps.Keys(v)) {
				if simpleKey.MatchString(k) {
					walk(v[k], join(k), k)
				}
			}
		case []any:
			for i, item := range v {
				walk(item, join(strconv.Itoa(i)), key)
			}
		case string:
			if len(v) >= shortestValue && len(v) <= longestValue && tokenLike.MatchString(v) && hasDigit.MatchString(v) && path != "" && len(out) < maxValues {
				out = append(out, value{path, key, v})
			}
		}
	}
	walk(root, "", "")
	return out
}

// useAnswers replaces what a step has from earlier answers. The latest answer counts.
func (l *Load) useAnswers(s *Step, known []answered) {
	for i := len(known) - 1; i >= 0; i-- {
		a := &known[i]
		if !s.mentions(a.text) {
			continue
		}
		if a.name == "" {
			a.name = l.placeholder(a.key)
			a.from.Extract = append(a.from.Extract, Extracted{Name: a.name, JSON: a.path})
			l.notef("%s: {%s} is taken from its answer, at %s, for later steps", a.from.Name, a.name, a.path)
		}
		s.replace(a.text, "{"+a.name+"}")
	}
}

// mentions says whether a request has a value.
func (s *Step) mentions(text string) bool {
	found := false
	s.each(func(in string, escape func(string) string) string {
		found = found || whole(in, escape(text)) >= 0
		return in
	})
	return found
}

// replace writes a placeholder where a request has a value.
func (s *Step) replace(text, placeholder string) {
	s.each(func(in string, escape func(string) string) string {
		var out strings.Builder
		for {
			written := escape(text)
			at := whole(in, written)
			if at < 0 {
				return out.String() + in
			}
			out.WriteString(in[:at] + placeholder)
			in = in[at+len(written):]
		}
	})
}

// each has every text of a request changed. escape is how a value is written there.
func (s *Step) each(change func(in string, escape func(string) string) string) {
	plain := func(v string) string { return v }
	r := &s.Request
	inPath := plain
	if strings.Contains(r.Path, "%") {
		inPath = url.QueryEscape
	}
	r.Path = change(r.Path, inPath)
	r.Body = change(r.Body, plain)
	for name := range r.Header {
		r.Header[name] = change(r.Header[name], plain)
	}
	for name := range r.Form {
		r.Form[name] = change(r.Form[name], plain)
	}
	for i := range r.Multipart {
		r.Multipart[i].Value = change(r.Multipart[i].Value, plain)
	}
}

// whole is where a text stands in another that is not a part of a longer word; -1 if it
// does not.
func whole(in, text string) int {
	for from := 0; ; {
		at := strings.Index(in[from:], text)
		if at < 0 {
			return -1
		}
		at += from
		end := at + len(text)
		if (at == 0 || !wordLike.MatchString(in[at-1:at])) && (end == len(in) || !wordLike.MatchString(in[end:end+1])) {
			return at
		}
		from = at + 1
	}
}

// placeholder is a name for a value that no other has.
func (l *Load) placeholder(key string) string {
	name := strings.Trim(notOfAName.ReplaceAllString(key, "_"), "_")
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "value_" + name
	}
	taken := func(name string) bool {
		return slices.ContainsFunc(l.Feeds, func(f Feed) bool { return f.Name == name }) ||
			slices.ContainsFunc(l.steps(), func(s *Step) bool {
				return slices.ContainsFunc(s.Extract, func(e Extracted) bool { return e.Name == name })
			})
	}
	for n := 2; taken(name); n++ {
		name = fmt.Sprintf("%s_%d", strings.TrimRight(name, "_0123456789"), n)
	}
	return name
}
