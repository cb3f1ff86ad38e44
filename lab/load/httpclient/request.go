package httpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// userAgent names the generator in the servers' logs.
const userAgent = "loadstone"

// scratch is what a request is put together in and read through, used again by
// the requests that follow.
type scratch struct {
	url     url.URL
	header  http.Header
	values  []string // behind header: its values, each a slice of one
	request http.Request
	drain   []byte // made when a body is not kept
}

func newScratch() *scratch {
	s := &scratch{header: make(http.Header, 8)}
	s.request = http.Request{
		URL: &s.url, Header: s.header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	return s
}

// fill returns r as net/http wants it, and its body if it has one. It fails if r
// cannot be sent as it is.
func (s *scratch) fill(ctx context.Context, c *Conn, r *Request) (*http.Request, *upload, error) {
	if err := s.setTarget(c.scheme, c.host, r); err != nil {
		return nil, nil, err
	}
	request := s.request.WithContext(ctx)
	request.Method, request.Host = r.Method, r.Host
	s.setHeader(request, r.Header)
	if request.Host == "" {
		request.Host = c.host
	}
	if strings.ContainsAny(request.Host, " \t\r\n/\\\"<>@?#^`{|}") {
		// net/http would send no host at all.
		return nil, nil, fmt.Errorf("the host %q cannot be sent: it has a character that no host has", request.Host)
	}
	if len(r.Body) == 0 {
		return request, nil, nil
	}
	up := &upload{rest: r.Body}
	request.Body, request.ContentLength = up, int64(len(r.Body))
	return request, up, nil
}

// setTarget makes s.url such that net/http sends r.Target as it is.
func (s *scratch) setTarget(scheme, host string, r *Request) error {
	target := r.Target
	switch {
	case r.Method == http.MethodConnect:
		return errors.New("the method CONNECT is for proxies, and cannot be used here")
	case !strings.HasPrefix(target, "/") && target != "*":
		return fmt.Errorf("the target is %q: it must begin with /", target)
	case strings.ContainsAny(target, " \t\r\n"):
		return fmt.Errorf("the target %q has a blank or a line's end, which would end it: write %%20, %%09, %%0D or %%0A", target)
	}
	s.url = url.URL{Scheme: scheme, Host: host, Opaque: target}
	if !strings.HasPrefix(target, "//") {
		return nil
	}
	// net/http takes an opaque URL that begins so for a host, and would put the
	// scheme before it. As a path it is left alone, unless it has characters that
	// net/http would escape.
	path, query, asked := strings.Cut(target, "?")
	plain, err := url.PathUnescape(path)
	s.url = url.URL{Scheme: scheme, Host: host, Path: plain, RawPath: path, RawQuery: query, ForceQuery: asked}
	if err != nil || s.url.RequestURI() != target {
		return fmt.Errorf("the target %q begins with // and has characters that a path must have escaped: escape them", target)
	}
	return nil
}

// setHeader puts the fields into s.header, and those that net/http has a place
// of its own for into the request.
func (s *scratch) setHeader(request *http.Request, fields []Field) {
	clear(s.header)
	// The values are sliced out below, so that they must not move.
	s.values = slices.Grow(s.values[:0], len(fields)+1)
	hasAgent := false
	for i := range fields {
		name := textproto.CanonicalMIMEHeaderKey(fields[i].Name)
		value := fields[i].Value
		switch name {
		case "Host":
			if request.Host == "" {
				request.Host = value
			}
			continue
		case "Connection":
			if strings.EqualFold(value, "close") {
				request.Close = true
				continue
			}
		case "User-Agent":
			hasAgent = true
		}
		s.add(name, value)
	}
	if !hasAgent {
		s.add("User-Agent", userAgent)
	}
}

// add appends a value to those of a field.
func (s *scratch) add(name, value string) {
	if values := s.header[name]; values != nil {
		s.header[name] = append(values, value)
		return
	}
	s.values = append(s.values, value)
	last := len(s.values)
	s.header[name] = s.values[last-1 : last : last]
}

// upload is a request's body. net/http may go on reading one after the answer
// has come, and its bytes are the caller's, so they can be taken away from it.
type upload struct {
	mu   sync.Mutex
	rest []byte
	gone bool
}

// errDetached reports a body whose request has ended. Nobody sees it but net/http.
var errDetached = errors.New("the request has ended")

// Read gives the next bytes.
func (u *upload) Read(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.gone:
		return 0, errDetached
	case len(u.rest) == 0:
		return 0, io.EOF
	}
	n := copy(p, u.rest)
	u.rest = u.rest[n:]
	return n, nil
}

// Close does nothing: there is nothing to free.
func (u *upload) Close() error { return nil }

// detach has no byte of the body looked at from now on.
func (u *upload) detach() {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.rest, u.gone = nil, true
}
