package experiment

import (
	"strings"
	"unicode"

	"loadstone/block/spelling"
)

// Checks are checks in the order of the file.
type Checks []Check

// Check is a claim about an answer: exactly one of status, contains and json.
type Check struct {
	Name string
	// The status that the answer has, or a list of those that it may have.
	Status []int `key:"status" eg:"200" least:"1" lone:"" max:"599" min:"100"`
	// Text that is somewhere in the body.
	Contains string `key:"contains" eg:"Welcome" form:"words"`
	// A path into a JSON body, in gjson's syntax, at which there is a value.
	JSON string `key:"json" eg:"user.name" form:"json"`
	// What the value at json reads as.
	Equals *string `key:"equals" eg:"Ada" beside:"json" scalar:"a text or a number"`
}

const maxCheckName = 100

func isCheckName(name string) bool {
	return strings.TrimSpace(name) != "" && len(name) <= maxCheckName && !strings.ContainsFunc(name, unicode.IsControl)
}

func (c *Check) check(s *section) {
	claims, equals := s.given("status", "contains", "json"), s.fields["equals"]
	name := spelling.Quote(c.Name)
	switch {
	case len(claims) > 1:
		s.errorf(s.place, "check %s is both %s and %s; write two checks", name, claims[0].key, claims[1].key)
	case len(claims) == 0 && (equals.n != nil || len(s.n.pairs) == 0):
		s.errorf(s.place, "check %s says nothing of the answer; write {status: 200}, {contains: text} or {json: path, equals: value}", name)
	case equals.n != nil && s.fields["json"].n == nil:
		s.errorf(equals.place, "equals is about the value at a path; write json: path beside it")
	}
}

// words reads text that an answer holds, numbers as they are written.
func (f field) words() string {
	if f.n.kind == text && f.n.text == "" {
		f.errorf(f.n, "%s is empty, which every answer holds; write %s", f.key, f.example)
		return ""
	}
	return f.scalar("a text or a number")
}

// jsonPath reads a path into a JSON body. gjson, whose syntax it is, takes any
// text for a path, so what is written in another syntax would find nothing.
func (f field) jsonPath() string {
	if f.n.kind == integer && !f.n.quoted {
		return f.n.text // an index into a list
	}
	path := f.text()
	if rest, ok := strings.CutPrefix(path, "$"); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
		instead := strings.Trim(strings.NewReplacer("[", ".", "]", "", "'", "").Replace(rest), ".")
		if instead == "" {
			instead = "@this"
		}
		f.errorf(f.n, "the path %s begins with $, which gjson's paths do not; write %s", spelling.Quote(path), instead)
		return ""
	}
	return path
}

func (*Check) rules(s *schema) { s.OneOf = exactlyOne("status", "contains", "json") }
