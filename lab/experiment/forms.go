package experiment

import (
	"regexp"

	"loadstone/block/spelling"
	"loadstone/lab/load"
)

const (
	namePattern = `^[A-Za-z0-9][A-Za-z0-9._-]*$`
	maxName     = 63

	wordPattern = `^[A-Za-z_][A-Za-z0-9_]*$`
	// nonEmpty is the form of a line that is not empty.
	nonEmpty = `\S`
)

// form is a form of text that is more than a pattern: what is said of a text that
// has not this form.
type form struct {
	pattern string // also in the schema
	longest int    // in bytes; 0 for no bound
	wrong   string // with %s for the text
	matches func(text string) bool
	// read is how such a text is read, in place of all that but the pattern.
	read func(f field) string
	// schema is what the schema has for it, where that is not the pattern.
	schema func() *schema
}

// forms are the forms by the names that tags have for them.
var forms = map[string]form{
	"name":     name("name", "name: results-caching"),
	"variant":  name("variant", "redis"),
	"scenario": name("scenario", "lookup"),
	"step":     name("step", "name: home"),
	"profile":  name("profile", "profiles: [monitoring]"),

	"source":      matching(`^`+sourceWord+`$`, "%s cannot name a value; write the name of what a step extracts, or of a feed"),
	"feed":        matching(wordPattern, "%s cannot name a feed; write letters, digits and _"),
	"placeholder": matching(wordPattern, "%s cannot name a placeholder; write letters, digits and _"),
	"variable":    matching(wordPattern, "%s cannot name a variable; write letters, digits and _"),

	"field":   {pattern: nonEmpty, wrong: "%s cannot name a field of a form; write a name", matches: regexp.MustCompile(nonEmpty).MatchString},
	"media":   matching(`^[A-Za-z0-9.+-]+/[A-Za-z0-9.+-]+(;[ -~]*)?$`, "%s is no content type; write one such as image/png"),
	"rpc":     matching(rpcPattern, "%s names no method of gRPC; write package.Service/Method"),
	"header":  fieldName("header", "such as Accept"),
	"taken":   fieldName("header", "such as Location"),
	"request": {pattern: pathPattern, read: field.requestPath},
	"socket":  {pattern: pathPattern, read: field.socketPath},
	"body":    {read: field.body},
	"words": {read: field.words, schema: func() *schema {
		return either(&schema{Type: "string", MinLength: count64(1)}, &schema{Type: "number"}, &schema{Type: "boolean"})
	}},
	"json": {read: field.jsonPath, schema: func() *schema {
		return either(&schema{Type: "string", Pattern: nonEmpty}, &schema{Type: "integer"})
	}},
	"url": {read: field.baseURL, schema: func() *schema {
		return &schema{Type: "string", Pattern: `^https?://[^{}? #@]+$`, Examples: []any{"http://127.0.0.1:8080"}}
	}},
	"prefix": {pattern: `^[0-9A-Fa-f:.]+(/[0-9]+)?$`, wrong: "%s is neither an IP address nor a prefix of some; write 127.1.0.0/20", matches: func(text string) bool {
		_, err := load.ParsePrefix(text)
		return err == nil
	}},
	"check":  {wrong: "%s cannot name a check; write a few words in one line", matches: isCheckName},
	"watch":  {pattern: watchPattern, longest: maxName, wrong: "%s cannot name a watched metric; write small letters, digits and _, beginning with a letter, at most 63", matches: regexp.MustCompile(watchPattern).MatchString},
	"bound":  {pattern: boundPattern, read: field.bound},
	"metric": {pattern: `^[A-Za-z_:][A-Za-z0-9_:]*(\{.*\})?$`, read: field.selector},
}

// matching is a form that is a pattern.
func matching(pattern, wrong string) form {
	return form{pattern: pattern, wrong: wrong, matches: regexp.MustCompile(pattern).MatchString}
}

// name is a form of what can name a directory, and stand between others in a
// line.
func name(what, example string) form {
	f := matching(namePattern, "the "+what+" %s cannot be a name; write letters, digits, dots, dashes and underscores, at most 63, as in "+example)
	f.longest = maxName
	return f
}

// fieldName is a form of a header's name.
func fieldName(what, example string) form {
	return form{wrong: "%s cannot name a " + what + "; write letters, digits and dashes, " + example, matches: fieldNameForm.MatchString}
}

// fits says whether a text has the form.
func (f form) fits(text string) bool {
	return (f.matches == nil || f.matches(text)) && (f.longest == 0 || len(text) <= f.longest)
}

// check refuses a text that has not the form.
func (f form) check(d *decoder, n *node) {
	if !f.fits(n.text) {
		d.errorf(n, f.wrong, spelling.Quote(n.text))
	}
}
