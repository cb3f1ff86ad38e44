package engine

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
)

// jar is a virtual user's cookies, by the rules of browsers (RFC 6265).
type jar struct {
	base *url.URL
	jar  *cookiejar.Jar
}

// newJar returns an empty jar for a user of the target at base.
func newJar(base *url.URL) *jar {
	j, err := cookiejar.New(nil)
	if err != nil {
		panic("load: a cookie jar without options was refused: " + err.Error()) // documented not to happen
	}
	return &jar{base: base, jar: j}
}

// at is the URL of a request target.
func (j *jar) at(target []byte) *url.URL {
	u := *j.base
	u.Path, _, _ = strings.Cut(string(target), "?")
	return &u
}

// set keeps the cookies that an answer to target set. A line that is no cookie
// is ignored, as browsers do.
func (j *jar) set(target []byte, lines []string) {
	var cookies []*http.Cookie
	for _, line := range lines {
		if c, err := http.ParseSetCookie(line); err == nil {
			cookies = append(cookies, c)
		}
	}
	j.jar.SetCookies(j.at(target), cookies)
}

// header returns the value of the Cookie header of a request to target; empty
// if it has none.
func (j *jar) header(target []byte) string {
	var out strings.Builder
	for i, c := range j.jar.Cookies(j.at(target)) {
		if i > 0 {
			out.WriteString("; ")
		}
		out.WriteString(c.Name + "=" + c.Value)
	}
	return out.String()
}

// append appends the Cookie header line of a request to target, if it has one.
func (j *jar) append(dst, target []byte) []byte {
	if value := j.header(target); value != "" {
		dst = append(dst, "Cookie: "...)
		dst = append(dst, value...)
		dst = append(dst, '\r', '\n')
	}
	return dst
}
