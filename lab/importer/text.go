package importer

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"loadstone/lab/load"
)

// Texts from elsewhere may have braces that would be taken for placeholders. Each kind of
// text has its own way to write them.

var braced = regexp.MustCompile(`\{([A-Za-z_][A-Za-z0-9_.]*)\}`)

// pathText writes a path and query such that it is read as it was.
func pathText(path string) string {
	const digits = "0123456789ABCDEF"
	path, _, _ = strings.Cut(path, "#")
	var b strings.Builder
	for i := range len(path) {
		c := path[i]
		escape := c == '%' && (i+2 >= len(path) || !isHex(path[i+1]) || !isHex(path[i+2]))
		if escape || c <= ' ' || c >= 0x7f || c == '{' || c == '}' {
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		} else {
			b.WriteByte(c)
		}
	}
	if !strings.HasPrefix(b.String(), "/") {
		return "/" + b.String()
	}
	return b.String()
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

// bodyText writes a body such that it is read as it was. It is false if that cannot be.
func bodyText(body string) (string, bool) {
	if !braced.MatchString(body) {
		return body, true
	}
	if json.Valid([]byte(body)) { // within strings only, where an escape will do
		return braced.ReplaceAllString(body, `\u007b$1}`), true
	}
	return braced.ReplaceAllString(body, `{ $1 }`), false
}

// setBody sets the body of a step's request.
func (l *Load) setBody(s *Step, body, contentType string) {
	r := &s.Request
	media, _, _ := strings.Cut(contentType, ";")
	if strings.TrimSpace(media) == "application/x-www-form-urlencoded" && setForm(r, body) {
		return
	}
	text, same := bodyText(body)
	if !same {
		l.notef("%s: what looks like a placeholder in the body has spaces within its braces now: see that the server takes it", s.Name)
	}
	if r.Body = text; contentType == "" {
		return
	}
	bare := load.Request{Body: text}
	if _, own, err := bare.Pieces(nil); err != nil || own != strings.TrimSpace(media) {
		setHeader(r, "Content-Type", contentType)
	}
}

// setForm sets a form's fields. It is false if they are not a mapping of names to texts
// that have no placeholders.
func setForm(r *load.Request, body string) bool {
	values, err := url.ParseQuery(body)
	if err != nil || len(values) == 0 {
		return false
	}
	form := make(map[string]string, len(values))
	for name, all := range values {
		if len(all) != 1 || name == "" || braced.MatchString(all[0]) {
			return false
		}
		form[name] = all[0]
	}
	r.Form = form
	return true
}

func setHeader(r *load.Request, name, value string) {
	if r.Header == nil {
		r.Header = map[string]string{}
	}
	r.Header[name] = value
}

// cutURL returns a URL's origin, and its path and query as they are written in a request.
func cutURL(raw string) (origin, path string, err error) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", "", err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", "", fmt.Errorf("%q is no http URL", raw)
	}
	path = u.EscapedPath()
	if u.RawQuery != "" {
		path += "?" + u.RawQuery
	}
	return u.Scheme + "://" + u.Host, pathText(path), nil
}
