package importer

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"loadstone/lab/load"
)

// secretName is what fields, headers and parameters are called that carry credentials.
var secretName = regexp.MustCompile(`(?i)authorization|cookie|token|secret|passw|pwd|api[-_]?key|session|csrf|xsrf|credential|signature|jwt|^auth|^sid$|^otp$|^pin$`)

// leftOut stands in place of a value that was left out.
const leftOut = "LEFT-OUT"

// jsonSecrets are the values of a JSON text by their keys.
var jsonSecrets = regexp.MustCompile(`"([^"\\]+)"(\s*:\s*)("(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*)`)

// redact leaves out what carries credentials, but for what earlier answers bring.
func (l *Load) redact() {
	for _, s := range l.steps() {
		r := &s.Request
		for _, name := range slices.Sorted(maps.Keys(r.Header)) {
			if secretName.MatchString(name) && !hasPlaceholder(r.Header[name]) {
				delete(r.Header, name)
				l.notef("%s: the header %s is left out: %s", s.Name, name, whatToWrite(name))
			}
		}
		told := func(what, name string) {
			l.notef("%s: the value of %s %s is left out: write your own for %s, or a feed", s.Name, what, name, leftOut)
		}
		r.Path = redactQuery(r.Path, func(name string) { told("the parameter", name) })
		for _, name := range slices.Sorted(maps.Keys(r.Form)) {
			if secretName.MatchString(name) && !hasPlaceholder(r.Form[name]) {
				r.Form[name] = leftOut
				told("the field", name)
			}
		}
		for i := range r.Multipart {
			if f := &r.Multipart[i]; secretName.MatchString(f.Name) && f.Value != "" && !hasPlaceholder(f.Value) {
				f.Value = leftOut
				told("the field", f.Name)
			}
		}
		r.Body = jsonSecrets.ReplaceAllStringFunc(r.Body, func(pair string) string {
			m := jsonSecrets.FindStringSubmatch(pair)
			if !secretName.MatchString(m[1]) || hasPlaceholder(m[3]) {
				return pair
			}
			told("the field", m[1])
			return `"` + m[1] + `"` + m[2] + `"` + leftOut + `"`
		})
	}
}

// whatToWrite says what to do about a header that was left out.
func whatToWrite(header string) string {
	if strings.EqualFold(header, "cookie") {
		return "cookies that an answer of the iteration sets are sent anyway"
	}
	value := "'{token}'"
	if strings.EqualFold(header, "authorization") {
		value = "'Bearer {token}'"
	}
	return "write it under headers, as in " + header + ": " + value + " with {token} from a feed or extracted in an earlier step"
}

// redactQuery leaves out the values of parameters that carry credentials.
func redactQuery(path string, told func(name string)) string {
	path, query, found := strings.Cut(path, "?")
	if !found {
		return path
	}
	parameters := strings.Split(query, "&")
	for i, p := range parameters {
		name, value, _ := strings.Cut(p, "=")
		if plain, err := url.QueryUnescape(name); err == nil && secretName.MatchString(plain) && value != "" && !hasPlaceholder(value) {
			parameters[i] = name + "=" + leftOut
			told(plain)
		}
	}
	return path + "?" + strings.Join(parameters, "&")
}

// hasPlaceholder says whether a text takes a value from elsewhere.
func hasPlaceholder(text string) bool { return len(load.SplitPlaceholders(text)) > 1 }
