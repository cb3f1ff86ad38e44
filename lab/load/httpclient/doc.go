// Package httpclient is one connection to an HTTP server, for the protocols
// that the load generator's own HTTP/1.1 path does not speak: HTTP/1.1 over
// TLS, HTTP/2 over TLS (by ALPN) and HTTP/2 with prior knowledge (h2c).
//
// It is no client in the sense of net/http's: it has no pool, follows no
// redirect, keeps no cookie, reads no proxy from the environment, asks for no
// compression and never sends a request twice. When to connect, what to send
// and what a failure means is its caller's business.
//
// # What is whose
//
// The protocols are net/http's: a Conn is an http.ClientConn over a socket that
// this package has dialled and, for TLS, handshaken itself. net/http is always
// told that the scheme is http, so that it takes the socket as it is; it learns
// nothing of TLS. Between the two lies a wire, which counts bytes, keeps the
// first error of the socket, and sees the two things of HTTP/2 that net/http
// does not tell: that the server's first SETTINGS have been applied, and that it
// has sent GOAWAY.
//
//	caller ─► Conn.Do ─► http.ClientConn ─► wire ─► [tls.Conn ─►] socket
//
// A Conn owns the socket and net/http's goroutines on it (two over HTTP/1.1, one
// and another per request over HTTP/2); they end soon after Close.
//
// # What a request may end as
//
// Do returns nil when a whole answer came, whatever its status. Every other end
// is an error of which Kind names exactly one kind of package failure.
package httpclient
