package httpclient

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"loadstone/block/servertest"
	"loadstone/lab/load/failure"
)

// refused is an address at which nobody listens, and nobody will before the test has
// ended: the port is taken.
func refused(t *testing.T) string {
	t.Helper()
	_, address := servertest.Bound(t)
	return address
}

// dialFails has Dial end as one kind, with a message.
func dialFails(t *testing.T, ctx context.Context, config Config, want failure.Kind, says string) { //nolint:revive // t is first in tests
	t.Helper()
	conn, err := Dial(ctx, config)
	if err == nil {
		_ = conn.Close()
		t.Fatal("no error")
	}
	if got := Kind(err); got != want {
		t.Errorf("got %v (%v), want %v", got, err, want)
	}
	if !Unsent(err) || !strings.Contains(err.Error(), says) {
		t.Errorf("got %q (unsent: %v), want it to say %q", err, Unsent(err), says)
	}
}

func TestDialSaysWhatIsWrongWithACertificate(t *testing.T) {
	t.Parallel()
	a := testAuthority(t)
	other, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	hour := time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		by    *authority
		host  string
		until time.Time
		alone bool
		says  string
	}{
		"unknown authority": {other, "127.0.0.1", hour, false, "unknown authority"},
		"self-signed":       {a, "127.0.0.1", hour, true, "unknown authority"},
		"wrong host":        {a, "elsewhere.example", hour, false, "set the server name"},
		"expired":           {a, "127.0.0.1", time.Now().Add(-time.Hour), false, "expired"},
	} {
		for _, protocol := range []string{HTTP1, HTTP2} {
			t.Run(name+" over "+protocol, func(t *testing.T) {
				t.Parallel()
				cert, err := c.by.certificate(c.host, c.until, c.alone)
				if err != nil {
					t.Fatal(err)
				}
				config := &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{protocol}}
				server := startRaw(t, config, func(conn net.Conn) {
					if protocol == HTTP2 {
						begin(conn)
					}
					hold(conn)
				})
				to := configFor(t, "https://"+server.address, protocol, a)
				dialFails(t, long(t), to, failure.TLS, c.says)
				if to.TLS, err = TLSConfig("", "", true); err != nil {
					t.Fatal(err)
				}
				conn, err := Dial(long(t), to)
				if err != nil {
					t.Fatalf("without verification: %v", err)
				}
				_ = conn.Close()
			})
		}
	}
}

func TestServerNameIsWhatTheCertificateMustBeFor(t *testing.T) {
	t.Parallel()
	a := testAuthority(t)
	cert, err := a.certificate("elsewhere.example", time.Now().Add(time.Hour), false)
	if err != nil {
		t.Fatal(err)
	}
	server := startRaw(t, &tls.Config{Certificates: []tls.Certificate{cert}}, hold)
	config := configFor(t, "https://"+server.address, HTTP1, a)
	if config.TLS, err = TLSConfig(a.file(t), "elsewhere.example", false); err != nil {
		t.Fatal(err)
	}
	dial(t, config)
}

func TestDialChecksALPN(t *testing.T) {
	t.Parallel()
	a := testAuthority(t)
	for name, offered := range map[string][]string{"none": nil, "only http/1.1": {HTTP1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startRaw(t, a.config(offered...), hold)
			dialFails(t, long(t), configFor(t, "https://"+server.address, HTTP2, a), failure.TLS, "asked for h2 by ALPN, and the server does not offer it")
			dial(t, configFor(t, "https://"+server.address, HTTP1, a))
		})
	}
	t.Run("something else", func(t *testing.T) {
		t.Parallel()
		server := startRaw(t, a.config("other"), hold)
		dialFails(t, long(t), configFor(t, "https://"+server.address, HTTP1, a), failure.TLS, "asked for http/1.1 by ALPN")
	})
}

func TestDialAgainstServersThatDoNotPlayAlong(t *testing.T) {
	t.Parallel()
	a := testAuthority(t)
	for _, c := range []struct {
		name, scheme, protocol string
		tls                    *tls.Config
		serve                  func(net.Conn)
		ctx                    func(testing.TB) context.Context
		kind                   failure.Kind
		says                   string
	}{
		{"handshake that stalls", "https", HTTP1, nil, hold, afterHandshake, failure.Timeout, "TLS handshake"},
		{"handshake cut", "https", HTTP1, nil, func(conn net.Conn) { _, _ = conn.Read(make([]byte, 10)) }, long, failure.TLS, "TLS handshake"},
		{"handshake without TLS", "https", HTTP1, nil, func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
			hold(conn)
		}, long, failure.TLS, "does not speak TLS"},
		{"no SETTINGS over h2c", "http", HTTP2, nil, hold, afterHandshake, failure.Timeout, "no SETTINGS"},
		{"no SETTINGS over h2", "https", HTTP2, a.config(HTTP2), hold, afterHandshake, failure.Timeout, "no SETTINGS"},
		{"closed before SETTINGS", "http", HTTP2, nil, func(conn net.Conn) { _, _ = io.CopyN(io.Discard, conn, 24+9) }, long, failure.Reset, "begin h2"},
		{"garbage", "http", HTTP2, nil, func(conn net.Conn) {
			_, _ = io.WriteString(conn, strings.Repeat("garbage! ", 100))
			hold(conn)
		}, long, failure.Protocol, "not HTTP/2"},
		{"bad SETTINGS", "http", HTTP2, nil, func(conn net.Conn) {
			hold(begin(conn, 0, 5, 0, 0, 0, 1)) // MAX_FRAME_SIZE 1
		}, long, failure.Protocol, "not HTTP/2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := startRaw(t, c.tls, c.serve)
			dialFails(t, c.ctx(t), configFor(t, c.scheme+"://"+server.address, c.protocol, a), c.kind, c.says)
		})
	}
	t.Run("HTTP/1.1 asked for h2c", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewServer(http.NotFoundHandler())
		defer server.Close()
		dialFails(t, long(t), configFor(t, server.URL, HTTP2, nil), failure.Protocol, "use protocol http/1.1")
	})
}

func TestDialTriesTheOthersWhereRefused(t *testing.T) {
	t.Parallel()
	server := start(t, h2c, func(http.ResponseWriter, *http.Request) {})
	config := server.config
	one, two := refused(t), refused(t)
	config.Addresses = []string{one, two}
	dialFails(t, long(t), config, failure.Refused, one+", "+two)
	config.Addresses = append(config.Addresses, server.config.Addresses[0])
	dial(t, config)
}

func TestDialWithinItsContext(t *testing.T) {
	t.Parallel()
	server := start(t, h2c, func(http.ResponseWriter, *http.Request) {})
	ctx, cancel := context.WithCancel(long(t))
	cancel()
	dialFails(t, ctx, server.config, failure.CutOff, "connect to")
	ctx, cancel = context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer cancel()
	dialFails(t, ctx, server.config, failure.Timeout, "connect to")
}

func TestDialTellsBadConfiguration(t *testing.T) {
	t.Parallel()
	good := Config{URL: &url.URL{Scheme: "http", Host: "127.0.0.1:1"}, Addresses: []string{"127.0.0.1:1"}, Protocol: HTTP2}
	for says, spoil := range map[string]func(*Config){
		"no host":       func(c *Config) { c.URL = &url.URL{Scheme: "http"} },
		"scheme is":     func(c *Config) { c.URL = &url.URL{Scheme: "ftp", Host: "a"} },
		"protocol is":   func(c *Config) { c.Protocol = "h3" },
		"no address":    func(c *Config) { c.Addresses = nil },
		"missing port":  func(c *Config) { c.Addresses = []string{"127.0.0.1"} },
		"URL has no ho": func(c *Config) { c.URL = nil },
	} {
		config := good
		spoil(&config)
		dialFails(t, long(t), config, failure.Dial, says)
	}
}

func TestTLSConfigTellsBadFiles(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing.pem")
	if _, err := TLSConfig(missing, "", false); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("missing file: got %v", err)
	}
	bad := filepath.Join(t.TempDir(), "bad.pem")
	if err := os.WriteFile(bad, []byte("not a certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := TLSConfig(bad, "", false); err == nil || !strings.Contains(err.Error(), "BEGIN CERTIFICATE") {
		t.Errorf("bad file: got %v", err)
	}
	config, err := TLSConfig("", "", false)
	if err != nil || config.InsecureSkipVerify || config.RootCAs != nil {
		t.Errorf("by default: got %+v, %v; want the machine's authorities, verified", config, err)
	}
}
