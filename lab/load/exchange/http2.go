package exchange

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"
)

// reflectionPaths begin the paths of gRPC's server reflection.
const reflectionPaths = "/grpc.reflection."

// OpenHTTP2 is Open for loads over HTTP/2, such as calls of gRPC. What is on the wire then is no text: the
// heads of requests and answers are written as over HTTP/1.1, and the fields of a trailer are
// apart. gRPC's server reflection, which is none of the load's, passes and is not shown.
func OpenHTTP2(ctx context.Context, c Config) (*Tap, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("show the exchanges: %w", err)
	}
	t := &Tap{config: c, listener: l}
	out, in := new(http.Protocols), new(http.Protocols)
	in.SetUnencryptedHTTP2(true)
	out.SetUnencryptedHTTP2(c.Target.Scheme != "https")
	out.SetHTTP2(c.Target.Scheme == "https")
	transport := &http.Transport{Protocols: out, TLSClientConfig: c.TLS.Clone(), DisableCompression: true, ResponseHeaderTimeout: c.Timeout}
	proxy := &httputil.ReverseProxy{
		Transport: t.shown(transport), FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = c.Target.Scheme, c.Target.Host
			r.Out.Host = r.In.Host
			if strings.HasPrefix(r.In.URL.Path, reflectionPaths) {
				r.Out.Host = c.Target.Host
			}
		},
		// The generator sees no answer, as the tap did.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := &http.Server{
		Protocols: in, ReadHeaderTimeout: c.Timeout,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			t.work.Add(1) // while Serve is part of it
			defer t.work.Done()
			proxy.ServeHTTP(w, r)
		}),
	}
	t.end = func() error {
		err := server.Close()
		transport.CloseIdleConnections()
		return err
	}
	t.work.Go(func() { _ = server.Serve(l) }) // until it is closed
	return t, nil
}

// shown has round trips shown when they are over.
func (t *Tap) shown(by http.RoundTripper) http.RoundTripper {
	return trips(func(r *http.Request) (*http.Response, error) {
		if strings.HasPrefix(r.URL.Path, reflectionPaths) {
			return by.RoundTrip(r)
		}
		began := time.Now()
		e := Exchange{Path: r.URL.Path, Request: requestHead(r)}
		sent := &kept{ReadCloser: r.Body}
		if r.Body != nil && r.Body != http.NoBody {
			r.Body = sent
		}
		over := func(err error) {
			e.Request = append(e.Request, sent.bytes()...)
			e.Took, e.Err = time.Since(began), err
			t.mu.Lock()
			t.config.Seen(e)
			t.mu.Unlock()
		}
		answer, err := by.RoundTrip(r)
		if err != nil {
			over(err)
			return nil, err
		}
		e.Answer = answerHead(answer)
		body := &kept{ReadCloser: answer.Body}
		body.over = func(err error) {
			e.Answer, e.Trailer = append(e.Answer, body.bytes()...), answer.Trailer
			over(err)
		}
		answer.Body = body
		return answer, nil
	})
}

// trips is a function that makes round trips.
type trips func(*http.Request) (*http.Response, error)

func (t trips) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// mostKept is how much of a body is shown, in bytes.
const mostKept = 1 << 20

// kept is a body of which what was read is kept.
type kept struct {
	io.ReadCloser
	over func(err error) // called once, at the end; may be nil

	mu   sync.Mutex // a request's body may be read while the answer comes
	read bytes.Buffer
	once sync.Once
}

func (k *kept) bytes() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return bytes.Clone(k.read.Bytes())
}

func (k *kept) Read(p []byte) (int, error) {
	n, err := k.ReadCloser.Read(p)
	k.mu.Lock()
	k.read.Write(p[:min(n, max(0, mostKept-k.read.Len()))])
	k.mu.Unlock()
	if err == io.EOF {
		k.end(nil)
	} else if err != nil {
		k.end(err)
	}
	return n, err
}

func (k *kept) Close() error {
	k.end(io.ErrUnexpectedEOF)
	return k.ReadCloser.Close()
}

func (k *kept) end(err error) {
	if k.over != nil {
		k.once.Do(func() { k.over(err) })
	}
}

func requestHead(r *http.Request) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/2\r\nHost: %s\r\n", r.Method, r.URL.RequestURI(), r.Host)
	_ = r.Header.Write(&b) // sorted
	b.WriteString("\r\n")
	return b.Bytes()
}

func answerHead(r *http.Response) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/2 %s\r\n", r.Status)
	_ = r.Header.Write(&b) // sorted
	b.WriteString("\r\n")
	return b.Bytes()
}
