package httpclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"

	"loadstone/lab/load/failure"
)

// TLSConfig returns how to speak TLS with a server whose certificate must be
// signed by an authority in caFile (PEM), or by one that the machine trusts if
// caFile is empty, and must be for serverName, or for the target's host if
// serverName is empty. With skipVerify any certificate will do.
func TLSConfig(caFile, serverName string, skipVerify bool) (*tls.Config, error) {
	c := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         serverName,
		InsecureSkipVerify: skipVerify, //nolint:gosec // off by default, and the user's own choice
	}
	if caFile == "" {
		return c, nil
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("read the file of certificates to trust: %w", err)
	}
	c.RootCAs = x509.NewCertPool()
	if !c.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate to trust: it must hold at least one PEM block that begins with -----BEGIN CERTIFICATE-----", caFile)
	}
	return c, nil
}

// Dialer returns a dialer of connections that come from an address of this machine, or,
// for the zero Addr, from one that the system chooses.
func Dialer(from netip.Addr) net.Dialer {
	// No keep-alive probes: a load test's connections are never idle for hours.
	d := net.Dialer{KeepAlive: -1}
	if from.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	}
	return d
}

// connect dials the first address, and the others in turn where it is refused.
func connect(ctx context.Context, from netip.Addr, addresses []string) (net.Conn, error) {
	dialer := Dialer(from)
	var socket net.Conn
	var err error
	tried := 0
	for _, address := range addresses {
		tried++
		if socket, err = dialer.DialContext(ctx, "tcp", address); err == nil {
			return socket, nil
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
	}
	return nil, &fault{
		kind: dialKind(ctx, err), unsent: true,
		doing: "connect to " + strings.Join(addresses[:tried], ", "), err: err,
	}
}

// dialKind names the kind of an error of connecting.
func dialKind(ctx context.Context, err error) failure.Kind {
	if k := contextKind(ctx, err); k != failure.None {
		return k
	}
	return failure.OfDial(err)
}

// handshake makes a TLS connection of socket, which stays the caller's to close
// if it fails.
func handshake(ctx context.Context, socket net.Conn, c *Config) (net.Conn, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.TLS != nil {
		config = c.TLS.Clone()
	}
	if config.ServerName == "" {
		config.ServerName = c.URL.Hostname()
	}
	config.NextProtos = []string{c.Protocol}
	conn := tls.Client(socket, config)
	f := &fault{kind: failure.TLS, unsent: true, doing: "TLS handshake with " + socket.RemoteAddr().String()}
	if err := conn.HandshakeContext(ctx); err != nil {
		if k := contextKind(ctx, err); k != failure.None {
			f.kind = k
		}
		f.err = explainTLS(err, c.Protocol)
		return nil, f
	}
	if got := conn.ConnectionState().NegotiatedProtocol; c.Protocol == HTTP2 && got != HTTP2 {
		f.err = notOffered(HTTP2)
		return nil, f
	}
	return conn, nil
}

// notOffered reports a server that does not speak the protocol.
func notOffered(protocol string) error {
	other := map[string]string{HTTP1: HTTP2, HTTP2: HTTP1}[protocol]
	return fmt.Errorf("asked for %s by ALPN, and the server does not offer it: use protocol %s", protocol, other)
}

// explainTLS adds to an error of a handshake what to do about it, where the
// error itself does not make that plain.
func explainTLS(err error, protocol string) error {
	var (
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		record  tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &unknown):
		return fmt.Errorf("%w: name its authority in a CA file, or skip verification", err)
	case errors.As(err, &name):
		return fmt.Errorf("%w: set the server name that the certificate is for", err)
	case errors.As(err, &record):
		return fmt.Errorf("the server does not speak TLS on this port: use http:// (%w)", err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the server closed the connection (%w)", err)
	case strings.Contains(err.Error(), "no application protocol"):
		// The alert of RFC 7301, 3.2. crypto/tls has no exported value for it.
		return fmt.Errorf("%w (%w)", notOffered(protocol), err)
	}
	return err
}

// ignoreClosed drops the error of closing what is closed already.
func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
