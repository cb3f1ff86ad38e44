package websocket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"loadstone/lab/load"
	"loadstone/lab/load/failure"
	"loadstone/lab/load/httpclient"
)

// login makes the request that clients make before they connect for the first time.
type login struct {
	group   *Group
	client  *http.Client
	path    template
	body    template
	headers []header
}

// header is one line of a request's head.
type header struct {
	name  string
	value template
}

// mostAnswer bounds what is read of the answer to a login, in bytes.
const mostAnswer = 1 << 20

// newLogin returns nil if nobody logs in.
func (g *Group) newLogin() (*login, error) {
	spec := g.config.Login
	if spec == nil {
		return nil, nil
	}
	l := &login{group: g}
	// From a client's own address, to which limits of a system may be tied. Idle
	// connections are shared only where all have the same.
	transport := &http.Transport{
		TLSClientConfig: g.tls, DisableKeepAlives: g.config.LocalIP != nil, DisableCompression: true,
		MaxIdleConnsPerHost: dialsAtOnce, IdleConnTimeout: time.Minute,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			from, _ := ctx.Value(localIP{}).(netip.Addr)
			d := httpclient.Dialer(from)
			return d.DialContext(ctx, network, address)
		},
	}
	l.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	var err [2]error
	l.path, err[0] = g.template(spec.Request.Path, "")
	pieces, contentType, unreadable := spec.Request.Pieces(os.ReadFile)
	if unreadable != nil {
		return nil, unreadable
	}
	l.body, err[1] = g.pieces(pieces, "")
	if err := errors.Join(err[:]...); err != nil {
		return nil, err
	}
	var failed error
	l.headers, failed = g.headerLines(spec.Request.Header)
	if _, given := spec.Request.ContentType(); !given && contentType != "" {
		l.headers = append(l.headers, header{name: "Content-Type", value: template{{literal: contentType}}})
	}
	return l, failed
}

// localIP is the key of the address that a connection comes from.
type localIP struct{}

// close closes idle connections.
func (l *login) close() {
	if l != nil {
		l.client.CloseIdleConnections()
	}
}

// do logs a client in and returns the values; nil if it could not. out is completed but for
// the time.
func (l *login) do(ctx context.Context, client int, v *values, out *Outcome) map[string]string {
	got, err := l.ask(ctx, client, v, out)
	if err == nil {
		return got
	}
	out.Err = fmt.Errorf("login: %w", err)
	var timeout net.Error
	switch {
	case out.Failed != failure.None || out.Status >= http.StatusBadRequest:
	case ctx.Err() != nil:
		out.Failed, out.Err = failure.CutOff, errCutOff
	case errors.As(err, &timeout) && timeout.Timeout():
		out.Failed = failure.Timeout
	case errors.Is(err, io.EOF):
		out.Failed = failure.EOF
	default:
		out.Failed = failure.OfDial(err)
	}
	return nil
}

func (l *login) ask(ctx context.Context, client int, v *values, out *Outcome) (map[string]string, error) {
	c := &l.group.config
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if c.LocalIP != nil {
		ctx = context.WithValue(ctx, localIP{}, c.LocalIP(client))
	}
	// The servers' addresses are of WebSocket: http is ws, and https wss.
	url := "http" + strings.TrimPrefix(c.URLs[client%len(c.URLs)], "ws") + string(v.text(l.path, escapePath))
	request, err := http.NewRequestWithContext(ctx, c.Login.Request.Method, url, bytes.NewReader(v.text(l.body, nil)))
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "loadstone")
	for _, h := range l.headers {
		request.Header.Set(h.name, string(v.text(h.value, escapeHeader)))
	}
	if host := request.Header.Get("Host"); host != "" {
		request.Host = host
	}
	answer, err := l.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(io.LimitReader(answer.Body, mostAnswer))
	if err != nil {
		return nil, err
	}
	if err := knownStatus(answer.StatusCode); err != nil {
		out.Failed = failure.BadHTTP
		return nil, err
	}
	out.Status = answer.StatusCode
	if answer.StatusCode >= http.StatusBadRequest {
		return nil, fmt.Errorf("the server answered with %d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
	}
	got := map[string]string{}
	for name, e := range c.Login.Extract {
		value, ok := extract(e, answer.Header, body)
		if !ok {
			out.Failed = failure.NoValue
			return nil, fmt.Errorf("the answer has no value for {%s}", name)
		}
		got[name] = value
	}
	return got, nil
}

// extract takes a value from an answer.
func extract(e load.Extract, h http.Header, body []byte) (string, bool) {
	if e.Header != "" {
		value := h.Get(e.Header)
		if value == "" && e.Default != nil {
			return *e.Default, true
		}
		return value, value != ""
	}
	value := gjson.GetBytes(body, e.JSON)
	if !value.Exists() && e.Default != nil {
		return *e.Default, true
	}
	if !value.Exists() && e.Initial != nil {
		return *e.Initial, true
	}
	if e.Join == "" {
		return value.String(), value.Exists()
	}
	var parts []string
	for _, part := range value.Array() {
		parts = append(parts, part.String())
	}
	return strings.Join(parts, e.Join), value.Exists()
}
