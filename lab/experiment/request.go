package experiment

import (
	"regexp"
	"slices"
	"strings"

	"loadstone/block/spelling"
)

const (
	methodWords = "GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS"
	feedWord    = `[A-Za-z_][A-Za-z0-9_]*`
	feedPattern = `^` + feedWord + `$`
	// sourceWord is what a placeholder names: a feed or what a step extracted,
	// or a column of a feed after a dot. The load generator takes whatever has
	// this form for a placeholder.
	sourceWord = `[A-Za-z_][A-Za-z0-9_.]*`

	// What a path may hold: printable ASCII but for # and what has a meaning
	// of its own, whole escapes, and placeholders.
	pathBody       = `/(?:[!"$&-z|~]|%[0-9A-Fa-f]{2}|\{` + sourceWord + `\})*`
	pathPattern    = `^` + pathBody + `$`
	requestPattern = `^(?:` + methodWords + `) ` + pathBody + `$`

	requestExample = "request: GET /path"
)

var (
	placeholderForm = regexp.MustCompile(`\{(` + sourceWord + `)\}`)
	feedForm        = regexp.MustCompile(feedPattern)
	pathForm        = regexp.MustCompile(pathPattern)
	fieldNameForm   = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
)

func methods() []string { return strings.Split(methodWords, "|") }

// use is one text of a request that may hold placeholders.
type use struct {
	n      *node
	isBody bool
	step   int // index of the step that it belongs to
}

// request reads a request and where placeholders may be in it.
func (f field) request() (Request, []use) {
	switch {
	case !f.given():
	case f.n.kind == mapping:
		return f.requestKeys()
	case f.n.kind == text:
		return f.requestLine(), []use{{n: f.n}}
	default:
		f.wrong("a method and a path, or a mapping of method, path, headers and body")
	}
	return Request{}, nil
}

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
	f.path(f.n, path)
	return Request{Method: method, Path: path}
}

// requestKeys reads a request written in full.
func (f field) requestKeys() (Request, []use) {
	var r Request
	var uses []use
	s := f.section(f.n, f.place, "the request", requestExample)
	if s == nil {
		return r, nil
	}
	r.Method = s.need("method", "method: GET").oneOf(methods()...)
	if p := s.need("path", "path: /path"); p.text() != "" {
		p.path(p.n, p.n.text)
		r.Path = p.n.text
		uses = append(uses, use{n: p.n})
	}
	if h := s.may("headers", "headers: {Accept: application/json}"); h.given() {
		r.Headers = h.headers()
		for _, p := range h.n.pairs {
			uses = append(uses, use{n: p.value})
		}
	}
	if b := s.may("body", `body: '{"name": "x"}'`); b.given() {
		if b.n.kind == mapping || b.n.kind == list {
			b.errorf(b.n, `body must be text, not %s; write it in quotes or after |, as in body: '{"name": "x"}'`, describe(b.n))
		} else if r.Body = b.text(); r.Body != "" {
			uses = append(uses, use{n: b.n, isBody: true})
		}
	}
	s.done()
	return r, uses
}

// path checks a path at n.
func (f field) path(n *node, path string) {
	switch {
	case strings.Contains(path, "://"):
		f.errorf(n, "the path names a host; write only the path, %s: the host is the entry service", pathOf(path))
	case !strings.HasPrefix(path, "/"):
		f.errorf(n, "the path %s does not start with a slash; write /%s", spelling.Quote(path), path)
	case strings.Contains(path, "#"):
		f.errorf(n, "a server never sees what follows #; write the path without it")
	case strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		f.errorf(n, "the path %s has a space or a character outside ASCII; write it percent-encoded, such as %%20", spelling.Quote(path))
	case strings.ContainsAny(placeholderForm.ReplaceAllString(path, ""), "{}"):
		f.errorf(n, "the path has a brace that belongs to no placeholder; write {name} with letters, digits and _, or %%7B and %%7D")
	case !pathForm.MatchString(path):
		f.errorf(n, "the path %s has a %% that starts no escape; write %%25 for the sign itself", spelling.Quote(path))
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

// headers reads header fields.
func (f field) headers() map[string]string {
	if f.n.kind != mapping {
		f.wrong("a mapping")
		return nil
	}
	out := make(map[string]string, len(f.n.pairs))
	for _, p := range f.n.pairs {
		name := p.key.text
		h := field{decoder: f.decoder, key: name, example: name + ": text", n: p.value, place: p.key}
		if !f.plain(p.value) {
			continue
		}
		value := h.text()
		switch {
		case !fieldNameForm.MatchString(name):
			f.errorf(p.key, "%s cannot name a header; write letters, digits and dashes, such as Accept", spelling.Quote(name))
		case slices.Contains(ownHeaders(), strings.ToLower(name)):
			f.errorf(p.key, "the load generator writes %s itself; remove it", name)
		case strings.EqualFold(name, "host") && placeholderForm.MatchString(value):
			f.errorf(p.value, "the header %s cannot hold a placeholder, because connections belong to a host; write the host out", name)
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			f.errorf(p.value, "the header %s has a line break or a control character in it; write it as one line", name)
		}
		out[name] = value
	}
	return out
}
