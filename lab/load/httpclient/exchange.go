package httpclient

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"

	"loadstone/lab/load/failure"
)

// MostBody is how many bytes of a body are kept in an Answer.
const MostBody = 1 << 20

// The buffer that bodies are read through when they are not kept starts small,
// because most bodies are, and doubles when a body fills it.
const (
	firstDrain = 4 << 10
	mostDrain  = 64 << 10
)

// Field is one header field.
type Field struct{ Name, Value string }

// Request is what to send. Do does not keep it, nor anything in it.
type Request struct {
	Method string
	// Target is the path and the query, sent exactly as it is: nothing is
	// escaped or resolved. It begins with a slash, or is * for OPTIONS.
	Target string
	// Host is the Host header or :authority; if it is empty, a Host in Header or
	// the connection's.
	Host string
	// Header has the other fields, in any case; a name may come more than once.
	// User-Agent is "loadstone" unless it is here, and not sent if it is here and
	// empty. Content-Length and Transfer-Encoding follow from Body and are
	// ignored. Connection: close has the connection end after the answer.
	Header []Field
	Body   []byte
	// WantBody and WantHeader ask for what the Answer is to have. Bodies are
	// read to their end in any case.
	WantBody   bool
	WantHeader bool
}

// Answer is what came back. It can be used for one request after the other, and
// the Body's memory is used again. After an error only Received and Sent count.
type Answer struct {
	Status int
	// Header is there if it was wanted, with canonical names; nobody else uses it.
	Header http.Header
	// Trailer is there if Header is, and the answer has one.
	Trailer http.Header
	// Body is there if it was wanted: the first MostBody bytes of it.
	Body []byte
	// Length is that of the whole body, as it came: nothing is decompressed.
	Length int64
	// Received and Sent are bytes of HTTP, headers and framing included, TLS not.
	// They are those of the connection since the request before: over HTTP/1.1
	// the request's own; over HTTP/2, where requests share frames' order and
	// header tables, exact in their sum over the requests of a connection and no
	// more than that.
	Received int64
	Sent     int64
}

// Do sends a request, once, and reads the answer to its end. It returns when ctx
// is done, which must have a deadline: that of the request, waiting for a turn
// included. Then, over HTTP/1.1, the connection is gone; over HTTP/2 only the
// stream is.
func (c *Conn) Do(ctx context.Context, r *Request, a *Answer) error {
	*a = Answer{Body: a.Body[:0]}
	if c.spent.Load() {
		return &fault{kind: failure.EOF, unsent: true, doing: doing(r), err: errors.New("this connection takes no further request")}
	}
	if !c.http2 {
		select {
		case c.turn <- struct{}{}:
			defer func() { <-c.turn }()
		case <-ctx.Done():
			return c.requestFault(ctx, r, ctx.Err(), true)
		}
	}
	s := c.scratches.Get().(*scratch)
	request, up, err := s.fill(ctx, c, r)
	if err != nil {
		c.scratches.Put(s)
		return &fault{kind: failure.BadHTTP, unsent: true, doing: doing(r), err: err}
	}
	before := c.wire.written.Load()
	err = c.exchange(request, r, a, s)
	// The server may have answered without taking the body: r.Body is the
	// caller's again from here on.
	up.detach()
	a.Received, a.Sent = c.wire.take()
	if err == nil {
		// To be cut off ends some servers' answers before their time, as if they
		// were whole. And what is whole too late is too late.
		err = ctx.Err()
	}
	if err == nil && c.closed.Load() {
		err = net.ErrClosed
	}
	if err != nil {
		err = c.failed(ctx, r, err, c.wire.written.Load() == before)
		var f *fault
		if a.Status > 0 && errors.As(err, &f) && f.kind == failure.EOF {
			f.kind = failure.ShortBody // the header had come
		}
		return err
	}
	if up == nil {
		// With a body, or after an error, net/http may still be reading what is in
		// the scratch. Then it is not used again.
		c.scratches.Put(s)
	}
	c.retire(request)
	return nil
}

// failed is what Do returns for a request that failed; quiet says that nothing
// was written to the connection meanwhile.
func (c *Conn) failed(ctx context.Context, r *Request, err error, quiet bool) error {
	// Over HTTP/2 net/http may still write what it has given up already.
	unsent := quiet && !c.http2
	if !c.http2 && !unsent {
		// No answer, or part of one, is in the way of the next.
		c.spent.Store(true)
	}
	return c.requestFault(ctx, r, err, unsent)
}

// retire notes a connection that ends with the answer that was just read.
func (c *Conn) retire(request *http.Request) {
	// An HTTP/1.1 connection that is not free after its answer never will be.
	if request.Close || c.wire.ending.Load() || !c.http2 && c.client.Available() == 0 {
		c.spent.Store(true)
	}
}

// exchange sends the request and reads the answer.
func (c *Conn) exchange(request *http.Request, r *Request, a *Answer, s *scratch) error {
	response, err := c.client.RoundTrip(request)
	if err != nil {
		return err
	}
	if response.StatusCode == http.StatusSwitchingProtocols {
		// What follows is no HTTP, and would be read until the deadline.
		c.spent.Store(true)
		return errors.Join(errSwitched, response.Body.Close(), c.client.Close())
	}
	a.Status = response.StatusCode
	if r.WantHeader {
		a.Header = response.Header
	}
	if r.WantBody && response.ContentLength > 0 {
		// One more byte, so that the end is seen without growing again.
		a.Body = slices.Grow(a.Body, int(min(response.ContentLength, MostBody))+1)
	}
	err = a.read(response.Body, r.WantBody, s)
	if errors.Is(err, io.ErrUnexpectedEOF) && a.Length == 0 && bodiless(response) {
		err = nil
	}
	if r.WantHeader {
		a.Trailer = response.Trailer
	}
	return errors.Join(err, response.Body.Close())
}

// errSwitched reports an answer that ends HTTP on the connection.
var errSwitched = errors.New("the server answered 101 and switched to another protocol")

// bodiless says whether the answer has no body whatever its Content-Length says,
// which is then that of the body it stands for (RFC 9110, 8.6). Over HTTP/2
// net/http knows that for HEAD and not for these.
func bodiless(response *http.Response) bool {
	return response.StatusCode == http.StatusNotModified || response.StatusCode == http.StatusNoContent
}

// read takes the body to its end: what is wanted into a.Body, the rest nowhere.
func (a *Answer) read(body io.Reader, want bool, s *scratch) error {
	for {
		keep := want && len(a.Body) < MostBody
		if keep && len(a.Body) == cap(a.Body) {
			a.Body = slices.Grow(a.Body, max(512, len(a.Body)))
		}
		if !keep && s.drain == nil {
			s.drain = make([]byte, firstDrain)
		}
		into := s.drain
		if keep {
			into = a.Body[len(a.Body):min(cap(a.Body), MostBody)]
		}
		n, err := body.Read(into)
		a.Length += int64(n)
		switch {
		case keep:
			a.Body = a.Body[:len(a.Body)+n]
		case n == len(into) && n < mostDrain:
			s.drain = make([]byte, 2*n)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
