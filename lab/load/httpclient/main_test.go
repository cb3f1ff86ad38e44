package httpclient

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary is a server to load when this variable names a protocol.
const roleVariable = "LOADSTONE_HTTPCLIENT_SERVER"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		if err := serveBenchmark(role); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// serveBenchmark answers everything with 400 bytes until its standard input
// ends. It prints its address, and the certificate of its authority behind it.
func serveBenchmark(role string) error {
	a, err := newAuthority()
	if err != nil {
		return err
	}
	body := []byte(strings.Repeat("x", 400))
	server := newServer(role, a, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(body)
	}))
	defer server.Close()
	if _, err := fmt.Printf("%s\n%s\n", server.URL, a.pem()); err != nil {
		return err
	}
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
	return nil
}

// authority signs certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a test's authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert: cert, key: key}, err
}

func (a *authority) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}))
}

// file writes the authority's certificate for TLSConfig.
func (a *authority) file(tb testing.TB) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "ca.pem")
	if err := os.WriteFile(path, []byte(a.pem()), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// certificate signs one for host that is valid until then; signed by itself if
// alone.
func (a *authority) certificate(host string, until time.Time, alone bool) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: host},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	parent, signer := a.cert, a.key
	if alone {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// config is how the authority's servers on 127.0.0.1 speak TLS.
func (a *authority) config(protocols ...string) *tls.Config {
	cert, err := a.certificate("127.0.0.1", time.Now().Add(time.Hour), false)
	if err != nil {
		panic(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: protocols}
}

// The ways to speak that are tested, by the names of their servers.
const (
	https1 = "https1"
	https2 = "https2"
	h2c    = "h2c"
)

func everyWay() []string { return []string{https1, https2, h2c} }

func protocolOf(way string) string {
	if way == https1 {
		return HTTP1
	}
	return HTTP2
}

// newServer starts net/http's server.
func newServer(way string, a *authority, handler http.Handler) *httptest.Server {
	server := httptest.NewUnstartedServer(handler)
	server.Config.Protocols = new(http.Protocols)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	switch way {
	case https1:
		server.Config.Protocols.SetHTTP1(true)
		server.TLS = a.config(HTTP1)
		server.StartTLS()
	case https2:
		server.Config.Protocols.SetHTTP2(true)
		server.EnableHTTP2 = true
		server.TLS = a.config(HTTP2)
		server.StartTLS()
	case h2c:
		server.Config.Protocols.SetUnencryptedHTTP2(true)
		server.Start()
	}
	return server
}

// started has a server and what reaches it.
type started struct {
	*httptest.Server

	config Config
}

// start starts net/http's server for one test.
func start(t *testing.T, way string, handler http.HandlerFunc) started {
	t.Helper()
	a := testAuthority(t)
	server := newServer(way, a, handler)
	t.Cleanup(server.Close)
	return started{Server: server, config: configFor(t, server.URL, protocolOf(way), a)}
}

var (
	authorityOnce sync.Once
	authorityOf   *authority
)

// testAuthority is one authority for all tests: making one is slow.
func testAuthority(tb testing.TB) *authority {
	tb.Helper()
	authorityOnce.Do(func() {
		var err error
		if authorityOf, err = newAuthority(); err != nil {
			tb.Fatal(err)
		}
	})
	return authorityOf
}

// configFor reaches the server at a base URL, trusting the authority.
func configFor(tb testing.TB, base, protocol string, a *authority) Config {
	tb.Helper()
	u, err := url.Parse(base)
	if err != nil {
		tb.Fatal(err)
	}
	c := Config{URL: u, Addresses: []string{u.Host}, Protocol: protocol}
	if u.Scheme == "https" {
		if c.TLS, err = TLSConfig(a.file(tb), "", false); err != nil {
			tb.Fatal(err)
		}
	}
	return c
}

// dial connects for one test, within a deadline that no test means to reach.
func dial(tb testing.TB, config Config) *Conn {
	tb.Helper()
	conn, err := Dial(long(tb), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return conn
}

// kept has something asked over a connection, which must be usable afterwards, and returns
// it. net/http gives one over HTTP/1.1 up, with nothing wrong with it, if its writer is told
// late that the request was written (see TestAConnectionThatIsGivenUp), as on a machine
// without time to spare: then all is done again over another, five times at most.
func kept(tb testing.TB, config Config, conn *Conn, ask func(*Conn)) *Conn {
	tb.Helper()
	for n := 1; ; n++ {
		ask(conn)
		if conn.Usable() {
			return conn
		}
		if n == 5 || config.Protocol != HTTP1 {
			tb.Fatal("the connection is not usable after answers that did not end it")
		}
		conn = dial(tb, config)
	}
}

// long is a context with a deadline that no test means to reach.
func long(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	tb.Cleanup(cancel)
	return ctx
}

// short is a context that a test means to run out.
func short(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	tb.Cleanup(cancel)
	return ctx
}

// afterHandshake is a context that runs out, too, but not before a busy machine has shaken hands.
func afterHandshake(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	tb.Cleanup(cancel)
	return ctx
}

// eventually polls until the condition holds.
func eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !holds() {
		if time.Now().After(deadline) {
			tb.Fatalf("not within two minutes: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// raw is a server that a test speaks for, byte by byte.
type raw struct {
	address string
	mu      sync.Mutex
	conns   []net.Conn
}

// startRaw serves each connection with a function, over TLS if config is given.
func startRaw(tb testing.TB, config *tls.Config, serve func(net.Conn)) *raw {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	r := &raw{address: listener.Addr().String()}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			r.conns = append(r.conns, conn)
			r.mu.Unlock()
			serving.Go(func() {
				defer conn.Close()
				if config != nil {
					secure := tls.Server(conn, config)
					defer secure.Close()
					serve(secure)
					return
				}
				serve(conn)
			})
		}
	})
	tb.Cleanup(func() {
		_ = listener.Close()
		r.mu.Lock()
		for _, conn := range r.conns {
			_ = conn.Close()
		}
		r.mu.Unlock()
		serving.Wait()
	})
	return r
}

// accepted is how many connections there were.
func (r *raw) accepted() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.conns)
}

// hold reads until the connection ends.
func hold(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

// frames is the server's side of HTTP/2, as far as tests need it.
type frames struct{ net.Conn }

// begin reads the client's preface and sends SETTINGS.
func begin(conn net.Conn, settings ...byte) frames {
	preface := make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	_, _ = io.ReadFull(conn, preface)
	f := frames{conn}
	f.send(typeSettings, 0, 0, settings...)
	return f
}

// send writes a frame.
func (f frames) send(kind, flags byte, stream uint32, payload ...byte) {
	n := len(payload)
	head := []byte{
		byte(n >> 16), byte(n >> 8), byte(n), kind, flags,
		byte(stream >> 24), byte(stream >> 16), byte(stream >> 8), byte(stream),
	}
	_, _ = f.Write(append(head, payload...))
}

// await reads frames up to the next of the kind, and returns its stream, or 0 at
// the end.
func (f frames) await(kind byte) uint32 {
	for {
		var head [frameHeader]byte
		if _, err := io.ReadFull(f, head[:]); err != nil {
			return 0
		}
		n := int64(head[0])<<16 | int64(head[1])<<8 | int64(head[2])
		if _, err := io.CopyN(io.Discard, f, n); err != nil {
			return 0
		}
		if head[3] == kind {
			return uint32(head[5])<<24 | uint32(head[6])<<16 | uint32(head[7])<<8 | uint32(head[8])
		}
	}
}

// More of HTTP/2's framing: frame types, flags, and header blocks by the static
// table (RFC 7541, appendix A).
const (
	typeData    = 0
	typeHeaders = 1
	typeReset   = 3
	endStream   = 1
	endHeaders  = 4
	status200   = 0x88
	status304   = 0x8b
)

// contentLength is the field as a literal.
func contentLength(digits string) []byte {
	return append([]byte{0x5c, byte(len(digits))}, digits...)
}
