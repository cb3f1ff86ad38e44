package experiment

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const (
	methodWords = "GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS"
	feedWord    = `[A-Za-z_][A-Za-z0-9_]*`
	feedPattern = `^` + feedWord + `$`

	// What a path may hold: printable ASCII but for # and what has a meaning
	// of its own, whole escapes, and placeholders.
	pathBody       = `/(?:[!"$&-z|~]|%[0-9A-Fa-f]{2}|\{` + feedWord + `\})*`
	pathPattern    = `^` + pathBody + `$`
	requestPattern = `^(?:` + methodWords + `) ` + pathBody + `$`

	requestExample = "request: GET /path"
)

var (
	placeholderForm = regexp.MustCompile(`\{(` + feedWord + `)\}`)
	feedForm        = regexp.MustCompile(feedPattern)
	pathForm        = regexp.MustCompile(pathPattern)
	fieldNameForm   = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
)

func methods() []string { return strings.Split(methodWords, "|") }

// use is one text of a request that may hold placeholders.
type use struct {
	n      *node
	isBody bool
}

// request reads a scenario's request and the feeds of its placeholders.
func (s *section) request() (Request, map[string]Feed) {
	f := s.need("request", requestExample)
	before := len(s.errs)
	var r Request
	var uses []use
	switch {
	case !f.given():
	case f.n.kind == mapping:
		r, uses = f.requestKeys()
	case f.n.kind == text:
		r = f.requestLine()
		uses = []use{{n: f.n}}
	default:
		f.wrong("a method and a path, or a mapping of method, path, headers and body")
	}
	understood := f.given() && len(s.errs) == before
	feeds := s.feeds()
	used := s.matchPlaceholders(uses, feeds)
	if understood {
		s.unusedFeeds(used)
	}
	return r, feeds
}

// requestLine reads "GET /path".
func (f field) requestLine() Request {
	method, path, found := strings.Cut(f.n.text, " ")
	upper := strings.ToUpper(method)
	switch {
	case f.text() == "":
		return Request{}
	case strings.HasPrefix(method, "/") || strings.Contains(method, "://"):
		f.errorf(f.n, "the request %s has no method; write request: GET %s", quote(f.n.text), pathOf(method))
		return Request{}
	case !slices.Contains(methods(), upper):
		f.errorf(f.n, "the request has no method %s; %s", quote(method), choose(upper, methods()))
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
		f.errorf(n, "the path %s does not start with a slash; write /%s", quote(path), path)
	case strings.Contains(path, "#"):
		f.errorf(n, "a server never sees what follows #; write the path without it")
	case strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		f.errorf(n, "the path %s has a space or a character outside ASCII; write it percent-encoded, such as %%20", quote(path))
	case strings.ContainsAny(placeholderForm.ReplaceAllString(path, ""), "{}"):
		f.errorf(n, "the path has a brace that belongs to no placeholder; write {name} with letters, digits and _, or %%7B and %%7D")
	case !pathForm.MatchString(path):
		f.errorf(n, "the path %s has a %% that starts no escape; write %%25 for the sign itself", quote(path))
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
			f.errorf(p.key, "%s cannot name a header; write letters, digits and dashes, such as Accept", quote(name))
		case slices.Contains([]string{"content-length", "transfer-encoding", "connection"}, strings.ToLower(name)):
			f.errorf(p.key, "the load generator writes %s itself; remove it", name)
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			f.errorf(p.value, "the header %s has a line break or a control character in it; write it as one line", name)
		}
		out[name] = value
	}
	return out
}

// feeds reads where the values of placeholders come from.
func (s *section) feeds() map[string]Feed {
	f := s.may("feed", "feed: {id: {uniform: [1, 1000]}}")
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
			s.errorf(p.key, "%s cannot name a feed; write letters, digits and _", quote(name))
			continue
		}
		out[name] = s.feed(p)
	}
	return out
}

func (s *section) feed(p pair) Feed {
	name := p.key.text
	example := name + ": {uniform: [1, 1000]}"
	sec := s.section(p.value, p.key, "feed "+quote(name), example)
	if sec == nil {
		return Feed{}
	}
	uniform, sequential := sec.may("uniform", "uniform: [1, 1000]"), sec.may("sequential", "sequential: [1, 1000]")
	sec.done()
	switch {
	case uniform.n != nil && sequential.n != nil:
		s.errorf(p.key, "feed %s is both uniform and sequential; write one of the two", quote(name))
	case uniform.n == nil && sequential.n == nil && len(p.value.pairs) == 0:
		s.errorf(p.key, "feed %s is empty; write %s", quote(name), example)
	}
	return Feed{Uniform: uniform.interval(), Sequential: sequential.interval()}
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
		// Within this bound the number of values fits an int64.
		const most = 1 << 62
		item := field{decoder: f.decoder, key: "each number of " + f.key, example: f.example, n: n, place: f.place, broken: !f.plain(n)}
		ends[i] = item.whole(-most, most-1)
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

// matchPlaceholders refuses a placeholder without a feed, and returns the
// names of all placeholders.
func (s *section) matchPlaceholders(uses []use, feeds map[string]Feed) map[string]bool {
	used := make(map[string]bool)
	for _, u := range uses {
		for _, m := range placeholderForm.FindAllStringSubmatch(u.n.text, -1) {
			name := m[1]
			_, fed := feeds[name]
			if fed || used[name] {
				used[name] = true
				continue
			}
			used[name] = true
			instead := fmt.Sprintf("write feed: {%s: {uniform: [1, 1000]}}", name)
			if u.isBody {
				instead += fmt.Sprintf(", or { %s } with spaces if it is no placeholder", name)
			}
			s.errorf(u.n, "the placeholder {%s} has no feed; %s", name, instead)
		}
	}
	return used
}

// unusedFeeds refuses a feed that no placeholder names.
func (s *section) unusedFeeds(used map[string]bool) {
	p, ok := s.n.pair("feed")
	if !ok {
		return
	}
	for _, feed := range p.value.pairs {
		if name := feed.key.text; !used[name] && feedForm.MatchString(name) {
			s.errorf(feed.key, "feed %s is not used; write {%s} in the request, or remove the feed", quote(name), name)
		}
	}
}
