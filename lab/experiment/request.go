package experiment

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"loadstone/block/spelling"
)

// Request is a request, written in full.
type Request struct {
	// The HTTP method, in capitals.
	Method string `key:"method,need" eg:"GET" enum:"GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS"`
	// The path and query, such as /student/{id}?lang=en.
	Path string `key:"path,need" eg:"/path" form:"request"`
	// Header fields by name.
	Headers map[string]string `key:"headers" eg:"{Accept: application/json}" list:"a mapping" names:"header"`
	// The body as text. One that reads as a JSON object or list is sent as
	// application/json if headers do not say otherwise; the values of placeholders
	// are escaped within its strings.
	Body string `key:"body" eg:"'{\"name\": \"x\"}'" form:"body"`
	// The fields of a form, in place of body: sent as
	// application/x-www-form-urlencoded, values percent-encoded.
	Form map[string]string `key:"form" eg:"{user: ada, pin: '{pin}'}" item:"text" least:"1" list:"a mapping from names to values" names:"field" scalar:"a text or a number"`
	// The fields of a form, in place of body, sent as multipart/form-data in this
	// order: a text, {file: photo.jpg}, or {value: text, type: text/csv}.
	Multipart []FormField `key:"multipart" eg:"{title: Holiday, photo: {file: photo.jpg}}" each:"field %s" least:"1" list:"a mapping from names to values" names:"field"`
}

// FormField is a field of a form: a text, or the content of a file.
type FormField struct {
	Name string
	// A text, in which {name} is a placeholder.
	Value string `key:"value" eg:"text" scalar:"a text or a number"`
	// Path of a file, relative to this file, whose content is sent as it is.
	File string `key:"file" eg:"photo.jpg" path:"a file to send"`
	// What the server is told the file is called: its own name if not given.
	FileName string `key:"filename" eg:"holiday.jpg" beside:"file"`
	// The field's content type. That of a file goes by its name if not given.
	Type string `key:"type" eg:"image/jpeg" form:"media"`
}

const (
	methodWords = "GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS"
	// sourceWord is what a placeholder names: a feed or what a step extracted,
	// or a column of a feed after a dot. The load generator takes whatever has
	// this form for a placeholder.
	sourceWord = `[A-Za-z_][A-Za-z0-9_.]*`

	// What a path may hold: printable ASCII but for # and what has a meaning
	// of its own, whole escapes, and placeholders.
	pathBody       = `/(?:[!"$&-z|~]|%[0-9A-Fa-f]{2}|\{` + sourceWord + `\})*`
	pathPattern    = `^` + pathBody + `$`
	requestPattern = `^(?:` + methodWords + `) ` + pathBody + `$`
)

var (
	placeholderForm = regexp.MustCompile(`\{(` + sourceWord + `)\}`)
	pathForm        = regexp.MustCompile(pathPattern)
	httpVersionForm = regexp.MustCompile(` +HTTP/[0-9.]+$`)
	fieldNameForm   = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
)

func methods() []string { return strings.Split(methodWords, "|") }

// short reads "GET /path".
func (r *Request) short(f field) bool {
	switch f.n.kind {
	case mapping:
		return false
	case text:
		*r = f.requestLine()
	default:
		f.wrong("a method and a path, or a mapping of method, path, headers and body")
	}
	return true
}

func (*Request) prepare(s *section) {
	s.hints = map[string]hint{"url": {"write path: /path", "path"}, "header": {"write headers: {NAME: value}", "headers"}, "json": {"write body: '{\"name\": \"x\"}'", "body"}}
}

func (r *Request) check(s *section) {
	s.fields["headers"].checkHeaders()
	bodies := s.given("body", "form", "multipart")
	if len(bodies) > 1 {
		s.errorf(bodies[1].place, "a request has one body, and this has %s and %s; write one of the two", bodies[0].key, bodies[1].key)
	}
	for _, f := range s.given("form", "multipart") {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			s.errorf(f.place, "%s is sent in the body, and %s has none; write method: POST, or the fields in the path, as in /path?name=value", f.key, r.Method)
		}
	}
	if multipart, headers := s.fields["multipart"], s.fields["headers"]; multipart.given() && headers.given() {
		for _, p := range headers.n.pairs {
			if strings.EqualFold(p.key.text, "content-type") {
				s.errorf(p.key, "the load generator writes the Content-Type of multipart itself, with the boundary between its fields; remove it")
			}
		}
	}
}

// short reads a text.
func (to *FormField) short(f field) bool {
	if f.n.kind == mapping {
		return false
	}
	f.key, f.example = f.nameOf(f.key), f.key+": text"
	to.Value = f.scalar("a text, or a mapping with file or value")
	return true
}

func (to *FormField) check(s *section) {
	switch given := s.given("value", "file"); {
	case len(given) == 2:
		s.errorf(s.place, "field %s is both value and file; write one of the two", spelling.Quote(to.Name))
	case len(given) == 1 && given[0].key == "value" && s.has("filename"):
		s.errorf(s.fields["filename"].place, "filename is what the server is told a file is called, and field %s is a text; remove it, or write file", spelling.Quote(to.Name))
	case len(given) == 0 && len(s.n.pairs) == len(s.given("type", "filename")):
		s.errorf(s.place, "field %s has no content; write %s: text, or %s: {file: photo.jpg}", spelling.Quote(to.Name), to.Name, to.Name)
	}
}

func (*FormField) shortSchema() *schema {
	return scalars()
}

func (*FormField) rules(s *schema) { s.OneOf = exactlyOne("value", "file") }

// requestLine reads "GET /path".
func (f field) requestLine() Request {
	method, path, found := strings.Cut(f.n.text, " ")
	upper := strings.ToUpper(method)
	switch {
	case f.text() == "":
		return Request{}
	case strings.HasPrefix(method, "/") || strings.Contains(method, "://"):
		f.errorf(f.n, "the request %s has no method; write request: GET %s", spelling.Quote(f.n.text), pathOf(method))
		return Request{}
	case !slices.Contains(methods(), upper):
		f.errorf(f.n, "the request has no method %s; %s", spelling.Quote(method), spelling.Choose(upper, methods()))
		return Request{}
	case upper != method:
		f.errorf(f.n, "the method is written in capitals; write %s", upper)
		return Request{}
	case !found:
		f.errorf(f.n, "the request %s has no path; write request: %s /path", method, method)
		return Request{}
	}
	f.checkPath(path)
	return Request{Method: method, Path: path}
}

// requestPath reads the path of a request.
func (f field) requestPath() string {
	path := f.text()
	if path != "" {
		f.checkPath(path)
	}
	return path
}

// checkPath checks a path, which is the value or a part of it.
func (f field) checkPath(path string) {
	switch {
	case strings.Contains(path, "://"):
		f.errorf(f.n, "the path names a host; write only the path, %s: the host is the entry service", pathOf(path))
	case !strings.HasPrefix(path, "/"):
		f.errorf(f.n, "the path %s does not start with a slash; write /%s", spelling.Quote(path), path)
	case httpVersionForm.MatchString(path):
		f.errorf(f.n, "the version of HTTP is no part of a request here; write only %s", httpVersionForm.ReplaceAllString(f.n.text, ""))
	case strings.Contains(path, "#"):
		f.errorf(f.n, "a server never sees what follows #; write the path without it")
	case strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		f.errorf(f.n, "the path %s has a space or a character outside ASCII; write it percent-encoded, such as %%20", spelling.Quote(path))
	case strings.ContainsAny(placeholderForm.ReplaceAllString(path, ""), "{}"):
		f.errorf(f.n, "the path has a brace that belongs to no placeholder; write {name} with letters, digits and _, or %%7B and %%7D")
	case !pathForm.MatchString(path):
		f.errorf(f.n, "the path %s has a %% that starts no escape; write %%25 for the sign itself", spelling.Quote(path))
	}
}

// pathOf returns the path of what may be a whole URL, for a message.
func pathOf(s string) string {
	_, rest, found := strings.Cut(s, "://")
	if !found {
		return s
	}
	_, path, _ := strings.Cut(rest, "/")
	return "/" + path
}

// ownHeaders are the headers that the load generator writes itself.
func ownHeaders() []string {
	return []string{"content-length", "transfer-encoding", "connection", "upgrade", "expect", "te", "trailer"}
}

// body reads text, as the others do, and says how to write what is none.
func (f field) body() string {
	if f.n.kind == mapping || f.n.kind == list {
		f.errorf(f.n, `%s must be text, not %s; write it in quotes or after |, as in %s: '{"name": "x"}'`, f.key, describe(f.n), f.key)
		return ""
	}
	return f.text()
}

// checkHeaders refuses header fields that the load generator writes, or that
// cannot be sent.
func (f field) checkHeaders() {
	if !f.given() {
		return
	}
	for _, p := range f.n.pairs {
		name, value := p.key.text, p.value.text
		switch {
		case slices.Contains(ownHeaders(), strings.ToLower(name)):
			f.errorf(p.key, "the load generator writes %s itself; remove it", name)
		case strings.EqualFold(name, "host") && placeholderForm.MatchString(value):
			f.errorf(p.value, "the header %s cannot hold a placeholder, because connections belong to a host; write the host out", name)
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			f.errorf(p.value, "the header %s has a line break or a control character in it; write it as one line", name)
		}
	}
}

func (*Request) shortSchema() *schema {
	return &schema{Type: "string", Pattern: requestPattern, Examples: []any{"GET /student/{id}"}}
}

func (*Request) rules(s *schema) {
	var own []*schema
	for _, name := range ownHeaders() {
		own = append(own, &schema{Pattern: anyCase(name)})
	}
	headers, _ := s.Properties.Get("headers")
	headers.PropertyNames = &schema{Not: either(own...)}
	for _, form := range []string{"form", "multipart"} {
		s.AllOf = append(s.AllOf, &schema{If: with(form), Then: &schema{Not: isOneOf("method", http.MethodGet, http.MethodHead)}})
	}
	s.AllOf = append(s.AllOf, atMostOne("body", "form", "multipart"),
		&schema{If: with("multipart"), Then: where(&schema{PropertyNames: &schema{Not: &schema{Pattern: anyCase("content-type")}}}, "headers")})
}

// anyCase is a pattern of a word in capitals or not: patterns of a schema have
// no flags.
func anyCase(word string) string {
	var b strings.Builder
	for _, r := range word {
		if lower, upper := strings.ToLower(string(r)), strings.ToUpper(string(r)); lower != upper {
			b.WriteString("[" + lower + upper + "]")
		} else {
			b.WriteString(lower)
		}
	}
	return "^" + b.String() + "$"
}
