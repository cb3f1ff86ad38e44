package importer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"loadstone/lab/load"
)

// yaml is the load as a file.
func (l *Load) yaml() []byte {
	var b bytes.Buffer
	line := func(indent int, format string, args ...any) {
		fmt.Fprintf(&b, "%s%s\n", strings.Repeat("  ", indent), fmt.Sprintf(format, args...))
	}
	line(0, "# Made by loadstone import of %s.", oneLine(l.From))
	for _, note := range l.Notes {
		line(0, "# - %s", oneLine(note))
	}
	line(0, "load:")
	if l.Target != "" {
		line(1, "target: %s", quote(l.Target))
	} else {
		line(1, "# target: http://127.0.0.1:8080   # or loadstone load FILE --target URL")
	}
	line(1, "scenarios:")
	line(2, "%s:", l.Scenario)
	line(3, "executor: constant-arrival-rate")
	if l.Weighted {
		line(3, "rate: 10/s   # requests: each is one of the steps, drawn by weight")
	} else {
		line(3, "rate: 1/s   # iterations: each makes all steps in turn")
	}
	line(3, "duration: 10s")
	if l.Weighted {
		line(3, "weighted: true")
	}
	if len(l.Feeds) > 0 {
		line(3, "feed:")
	}
	for _, f := range l.Feeds {
		line(4, "%s: {uniform: [%d, %d]}", f.Name, f.Low, f.High)
	}
	line(3, "steps:")
	for i := range l.Parts {
		indent := 4
		if p := &l.Parts[i]; p.Lanes > 0 {
			line(4, "- parallel: %d", p.Lanes)
			line(5, "steps:")
			indent = 6
		}
		for k := range l.Parts[i].Steps {
			l.Parts[i].Steps[k].write(indent, line)
		}
	}
	line(0, "slo:")
	line(1, "http_req_failed: [rate<0.01]")
	return b.Bytes()
}

// write writes a step as an item of a list.
func (s *Step) write(indent int, line func(int, string, ...any)) {
	line(indent, "- name: %s", quote(s.Name))
	r := &s.Request
	if len(r.Header) == 0 && !r.HasBody() {
		line(indent+1, "request: %s", quote(r.Method+" "+r.Path))
	} else {
		line(indent+1, "request:")
		line(indent+2, "method: %s", r.Method)
		line(indent+2, "path: %s", quote(r.Path))
		mapped(indent+2, "headers", r.Header, line)
		if r.Body != "" {
			line(indent+2, "body: %s", quote(r.Body))
		}
		mapped(indent+2, "form", r.Form, line)
		if len(r.Multipart) > 0 {
			line(indent+2, "multipart:")
		}
		for _, f := range r.Multipart {
			line(indent+3, "%s: %s", quote(f.Name), field(f))
		}
	}
	if len(s.Extract) > 0 {
		line(indent+1, "extract:")
	}
	for _, e := range s.Extract {
		line(indent+2, "%s: %s", e.Name, quote(e.JSON))
	}
	if s.Expected > 0 {
		line(indent+1, "expectedStatuses: %d", s.Expected)
	}
	if len(s.Checks) > 0 {
		line(indent+1, "checks:")
	}
	for _, c := range s.Checks {
		line(indent+2, "%s: {status: %d}", quote(c.Name), c.Status[0])
	}
	if s.Think > 0 {
		line(indent+1, "think: %s", s.Think.Round(100*time.Millisecond))
	}
}

func mapped(indent int, key string, values map[string]string, line func(int, string, ...any)) {
	if len(values) == 0 {
		return
	}
	line(indent, "%s:", key)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		line(indent+1, "%s: %s", quote(name), quote(values[name]))
	}
}

func field(f load.FormField) string {
	if f.File == "" && f.Type == "" {
		return quote(f.Value)
	}
	var keys []string
	add := func(key, value string) {
		if value != "" {
			keys = append(keys, key+": "+quote(value))
		}
	}
	if f.File == "" {
		keys = append(keys, "value: "+quote(f.Value))
	}
	add("file", f.File)
	add("filename", f.FileName)
	add("type", f.Type)
	return "{" + strings.Join(keys, ", ") + "}"
}

// plainForm are texts that YAML takes for text wherever they stand.
var plainForm = regexp.MustCompile(`^(GET |POST |PUT |PATCH |DELETE |HEAD |OPTIONS )?[A-Za-z/][A-Za-z0-9/._=-]*$`)

// notText are words that YAML takes for something else.
var notText = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n", "inf", "nan"}

// quote writes text as a YAML scalar. Every JSON string is one.
func quote(text string) string {
	if plainForm.MatchString(text) && !slices.Contains(notText, strings.ToLower(text)) {
		return text
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		panic(err) // a string can be written
	}
	// JSON leaves DEL and the C1 controls as they are, which YAML has not in its texts.
	var out strings.Builder
	for _, r := range strings.TrimSuffix(b.String(), "\n") {
		if r >= 0x7f && r <= 0x9f || r == 0xfeff {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// oneLine is a text for a comment.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
