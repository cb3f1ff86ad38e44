package load

import (
	"fmt"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// template is a scenario's request for one target, compiled: the bytes of the
// request with gaps for the feed values and the length of the body. Filling it
// in allocates nothing. It does not change and is shared by virtual users.
type template struct {
	head  bool // the method is HEAD: answers have no body
	parts []part
	feeds []values
	// bodyLiteral is the length of the body without its feed values, bodyFeeds
	// the feed of each value in it.
	bodyLiteral int
	bodyFeeds   []int
}

// part is literal text, followed by what its kind says.
type part struct {
	literal string
	then    partKind
	feed    int // for thenValue: index into template.feeds
}

type partKind uint8

const (
	thenNothing partKind = iota
	thenValue
	thenBodyLength
)

// userAgent names the generator in the servers' logs.
const userAgent = "loadstone"

// compile prepares request for the target at base, whose path is put before
// the request's. Feeds must have been checked by Plan.Validate.
func compile(request *Request, feeds []values, base *url.URL) *template {
	t := &template{head: request.Method == "HEAD", feeds: feeds} //nolint:usestdlibvars // net/http is a large package for one word
	host := base.Host
	var head strings.Builder
	fmt.Fprintf(&head, "%s %s%s HTTP/1.1\r\n", request.Method, strings.TrimSuffix(base.EscapedPath(), "/"), request.Path)
	var extra strings.Builder
	agent := userAgent
	for _, name := range sortedKeys(request.Header) {
		switch strings.ToLower(name) {
		case "host":
			host = request.Header[name]
		case "user-agent":
			agent = request.Header[name]
		default:
			fmt.Fprintf(&extra, "%s: %s\r\n", name, request.Header[name])
		}
	}
	fmt.Fprintf(&head, "Host: %s\r\nUser-Agent: %s\r\n%s", host, agent, extra.String())
	t.add(head.String())
	if request.Body != "" || slices.Contains([]string{"POST", "PUT", "PATCH"}, request.Method) {
		t.parts = append(t.parts, part{literal: "Content-Length: ", then: thenBodyLength}, part{literal: "\r\n"})
	}
	t.parts = append(t.parts, part{literal: "\r\n"})
	body := len(t.parts)
	t.add(request.Body)
	for _, p := range t.parts[body:] {
		t.bodyLiteral += len(p.literal)
		if p.then == thenValue {
			t.bodyFeeds = append(t.bodyFeeds, p.feed)
		}
	}
	return t
}

// add appends text with its placeholders.
func (t *template) add(text string) {
	for _, piece := range splitPlaceholders(text) {
		p := part{literal: piece.before}
		if piece.name != "" {
			p.then = thenValue
			p.feed = slices.IndexFunc(t.feeds, func(v values) bool { return v.name == piece.name })
		}
		t.parts = append(t.parts, p)
	}
}

// fill appends request number k to dst. texts is the caller's scratch: one
// buffer for each feed, kept from call to call.
func (t *template) fill(dst []byte, k uint64, texts [][]byte) []byte {
	for i := range t.feeds {
		texts[i] = strconv.AppendInt(texts[i][:0], t.feeds[i].at(k), 10)
	}
	for i := range t.parts {
		p := &t.parts[i]
		dst = append(dst, p.literal...)
		switch p.then {
		case thenNothing:
		case thenValue:
			dst = append(dst, texts[p.feed]...)
		case thenBodyLength:
			length := t.bodyLiteral
			for _, feed := range t.bodyFeeds {
				length += len(texts[feed])
			}
			dst = strconv.AppendInt(dst, int64(length), 10)
		}
	}
	return dst
}

// placeholder is a stretch of text and the name of the placeholder after it,
// empty at the end of the text.
type placeholder struct{ before, name string }

// splitPlaceholders cuts text at its placeholders. A placeholder is a name of
// letters, digits and _ in braces, not beginning with a digit; any other brace
// is text, so JSON bodies need no escapes.
func splitPlaceholders(text string) []placeholder {
	var pieces []placeholder
	begin := 0
	for i := 0; i < len(text); i++ {
		if text[i] != '{' {
			continue
		}
		end := i + 1
		for end < len(text) && isNameByte(text[end], end > i+1) {
			end++
		}
		if end == i+1 || end == len(text) || text[end] != '}' {
			continue
		}
		pieces = append(pieces, placeholder{before: text[begin:i], name: text[i+1 : end]})
		begin, i = end+1, end
	}
	return append(pieces, placeholder{before: text[begin:]})
}

// isNameByte says whether c may stand in a placeholder's name; digits only
// after its first byte.
func isNameByte(c byte, digits bool) bool {
	return c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z' || digits && '0' <= c && c <= '9'
}

// sortedKeys returns the keys of m in order: a request must not depend on the
// order in which a map is walked.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
