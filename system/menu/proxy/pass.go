package proxy

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/valyala/fasthttp"

	"loadstone/block/route"
)

// hopByHop are the headers that are meant for this end of a connection (RFC 9110, 7.6.1).
// Host and Content-Length are made anew.
var hopByHop = []string{
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect", "Host", "Content-Length",
}

// pass sends a request on to one of the servers: its path from byte cut on, behind the prefix.
func (p *Proxy) pass(to *servers, cut int, prefix string) route.Handler {
	return func(ctx *fasthttp.RequestCtx) error {
		path := ctx.URI().PathOriginal()
		query := ctx.URI().QueryString()
		if !clean(path) || !printable(query) {
			return &route.Error{Code: route.BadRequest}
		}
		target := append([]byte(prefix), path[cut:]...)
		if len(query) > 0 {
			target = append(append(target, '?'), query...)
		}
		req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
		defer fasthttp.ReleaseRequest(req)
		outgoing(ctx, req)
		if err := to.do(call{req: req, resp: resp, target: target}); err != nil {
			fasthttp.ReleaseResponse(resp)
			return failed(err)
		}
		if location := resp.Header.Peek(fasthttp.HeaderLocation); prefix != "" && bytes.HasPrefix(location, []byte(prefix)) {
			resp.Header.Set(fasthttp.HeaderLocation, string(path[:cut])+string(location[len(prefix):]))
		}
		answer(ctx, resp, to.maxBytes)
		return nil
	}
}

// outgoing makes the request for the server.
func outgoing(ctx *fasthttp.RequestCtx, req *fasthttp.Request) {
	header := &ctx.Request.Header
	req.Header.SetMethodBytes(header.Method())
	named := header.Peek(fasthttp.HeaderConnection)
	for name, value := range header.All() {
		if !forThisEnd(name, named) && bytes.IndexByte(name, '_') < 0 {
			req.Header.AddBytesKV(name, value)
		}
	}
	if from := ctx.RemoteIP(); from != nil {
		seen := append(bytes.Clone(header.Peek(fasthttp.HeaderXForwardedFor)), ", "...)
		req.Header.Set(fasthttp.HeaderXForwardedFor, strings.TrimPrefix(string(seen)+from.String(), ", "))
	}
	req.Header.SetNoDefaultContentType(true)
	req.SetBodyRaw(ctx.Request.Body())
}

// forThisEnd reports whether a header is not sent on. named is the header Connection, which
// may name more of them.
func forThisEnd(name, named []byte) bool {
	for _, hop := range hopByHop {
		if strings.EqualFold(string(name), hop) {
			return true
		}
	}
	for token := range bytes.SplitSeq(named, []byte{','}) {
		if bytes.EqualFold(bytes.TrimSpace(token), name) {
			return true
		}
	}
	return false
}

// answer answers with what a server said, and releases that.
func answer(ctx *fasthttp.RequestCtx, resp *fasthttp.Response, maxBytes int) {
	out := &ctx.Response
	out.SetStatusCode(resp.StatusCode())
	out.Header.SetNoDefaultContentType(true)
	resp.Header.SetNoDefaultContentType(true)
	named := resp.Header.Peek(fasthttp.HeaderConnection)
	for name, value := range resp.Header.All() {
		if !forThisEnd(name, named) {
			out.Header.AddBytesKV(name, value)
		}
	}
	length := resp.Header.ContentLength()
	stream := resp.BodyStream()
	switch {
	case ctx.IsHead():
		out.SkipBody = true
		out.Header.SetContentLength(max(length, 0))
	case stream != nil:
		out.SetBodyStream(&bounded{stream, resp, maxBytes, false}, max(length, -1)) // closes it
		return
	default:
		out.SetBody(resp.Body()) // copies
	}
	_ = resp.CloseBodyStream()
	fasthttp.ReleaseResponse(resp)
}

// errTooLong ends an answer that is too long: its connections are closed, and the client sees
// that it is not whole.
var errTooLong = errors.New("the server's answer is too long")

// bounded is the body of a server's answer on its way.
type bounded struct {
	body io.Reader
	resp *fasthttp.Response
	left int
	end  bool
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errTooLong
	}
	b.end = b.end || err == io.EOF
	return n, err
}

// Close implements io.Closer. A connection with the rest of an answer in it must not be used
// again: the next request would get that.
func (b *bounded) Close() error {
	if b.resp == nil {
		return nil
	}
	if closer, ok := b.body.(fasthttp.ReadCloserWithError); ok && !b.end {
		_ = closer.CloseWithError(errTooLong)
	}
	err := b.resp.CloseBodyStream()
	fasthttp.ReleaseResponse(b.resp)
	b.resp = nil
	return err
}

// clean reports whether all servers take a path for the same: no empty or dot segments, no
// encoded dots, slashes or bytes that end a text, nothing that is not printable.
func clean(path []byte) bool {
	if !printable(path) || bytes.Contains(path, []byte("//")) || bytes.ContainsAny(path, "\\#") {
		return false
	}
	for segment := range bytes.SplitSeq(path, []byte{'/'}) {
		name, _, _ := bytes.Cut(segment, []byte{';'}) // some servers cut parameters off
		if string(name) == "." || string(name) == ".." {
			return false
		}
	}
	lower := bytes.ToLower(path)
	for _, encoded := range []string{"%2e", "%2f", "%5c", "%00", "%0a", "%0d"} {
		if bytes.Contains(lower, []byte(encoded)) {
			return false
		}
	}
	return true
}

func printable(text []byte) bool {
	for _, b := range text {
		if b <= ' ' || b >= 0x7f {
			return false
		}
	}
	return true
}

// twoLengths reports whether a request says its length in two ways, of which whoever stood
// before may have taken the other. Two Content-Length headers do not get this far.
func twoLengths(header *fasthttp.RequestHeader) bool {
	coding, length := false, false
	for line := range bytes.SplitSeq(header.RawHeaders(), []byte{'\n'}) {
		if len(line) < len(fasthttp.HeaderContentLength) || line[0]|' ' != 't' && line[0]|' ' != 'c' {
			continue // what most are: this is asked for each request
		}
		name, _, _ := bytes.Cut(line, []byte{':'})
		name = bytes.TrimSpace(name)
		coding = coding || bytes.EqualFold(name, []byte(fasthttp.HeaderTransferEncoding))
		length = length || bytes.EqualFold(name, []byte(fasthttp.HeaderContentLength))
	}
	return coding && length
}
