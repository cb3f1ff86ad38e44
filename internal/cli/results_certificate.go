package cli

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"loadstone/block/atomicfile"
)

func (a *app) certificateCommand() *cobra.Command {
	c := certificate{now: time.Now}
	cmd := &cobra.Command{
		Use:   "certificate",
		Short: "Create a self-signed TLS certificate, if there is none",
		Long: `Create a self-signed TLS certificate, if there is none: tls.crt and tls.key in a
directory, valid for a year. An existing certificate that matches its key and covers
the hosts is left unchanged until its last week. A certificate of another issuer is
never replaced: put your own into the directory under these names, and it is used;
problems with it are only reported.

Browsers warn about a self-signed certificate. It is for trying things out, and for a
load balancer behind another one that has a real certificate.`,
		Example: `  loadstone results certificate --to tls --host localhost --host 127.0.0.1`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.validate(); err != nil {
				return err
			}
			made, until, err := c.ensure(cmd.Context())
			if err != nil {
				return fmt.Errorf("certificate in %s: %w", c.directory, err)
			}
			if c.doubt != "" {
				fmt.Fprintf(a.Stderr, "warning: %s was not issued by this program and is left unchanged: %s\n", c.certPath(), c.doubt)
				return nil
			}
			what := "is there already"
			if made {
				what = "was made"
			}
			fmt.Fprintf(a.Stdout, "%s %s: it covers %s and is valid until %s\n",
				c.certPath(), what, strings.Join(c.hosts, ", "), until.UTC().Format(time.DateOnly))
			return nil
		},
	}
	cmd.Flags().StringVar(&c.directory, "to", "", "directory for tls.crt and tls.key")
	cmd.Flags().StringSliceVar(&c.hosts, "host", nil, "name or IP address that the certificate covers; may be repeated")
	return cmd
}

// Life of a certificate.
const (
	certificateLife  = 365 * 24 * time.Hour
	certificateRenew = 7 * 24 * time.Hour // before its end
	// clockSkew is how far behind ours a client's clock may be.
	clockSkew = time.Hour
)

// issuer marks what this command has made, and may replace.
const issuer = "Loadstone self-signed"

// certificate is a pair of files to be there.
type certificate struct {
	directory string
	hosts     []string
	now       func() time.Time
	// doubt is why a certificate of somebody else's may not do.
	doubt string
}

func (c *certificate) certPath() string { return filepath.Join(c.directory, "tls.crt") }
func (c *certificate) keyPath() string  { return filepath.Join(c.directory, "tls.key") }

// hostName is a DNS name, perhaps with a wildcard as its first label.
var hostName = regexp.MustCompile(`^(\*\.)?[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?)*$`)

func (c *certificate) validate() error {
	if c.directory == "" {
		return usagef("results certificate: name the directory with --to")
	}
	if len(c.hosts) == 0 {
		return usagef("results certificate: name at least one host with --host, such as localhost")
	}
	const longest = 253 // of a DNS name
	for _, host := range c.hosts {
		if net.ParseIP(host) == nil && (len(host) > longest || !hostName.MatchString(host)) {
			return usagef("--host %q: write a name such as results.example.org, or an IP address, without a port", host)
		}
	}
	return nil
}

// ensure makes the pair unless a good one is there, and says until when it is valid.
// Commands that run at once wait for each other.
func (c *certificate) ensure(ctx context.Context) (made bool, until time.Time, err error) {
	if err := os.MkdirAll(c.directory, 0o755); err != nil {
		return false, until, err
	}
	pending, err := c.claim(ctx)
	if err != nil {
		return false, until, err
	}
	defer func() { err = errors.Join(err, pending.Discard()) }()
	have, reason, err := c.inspect()
	if err != nil {
		return false, until, err
	}
	if reason == "" {
		return false, have.NotAfter, nil
	}
	if have != nil && !ours(have) {
		// It is for its owner to know better: a name that is not asked for, or a
		// renewal that comes later, is no reason not to start.
		c.doubt = reason
		return false, have.NotAfter, nil
	}
	until, err = c.write(pending)
	return err == nil, until, err
}

// claimTimeout bounds how long a command waits for another, which takes
// milliseconds.
const claimTimeout = 10 * time.Second

// claim starts the replacement of the key, which is written last; whoever has it is
// alone.
func (c *certificate) claim(ctx context.Context) (*atomicfile.Pending, error) {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	for {
		pending, err := atomicfile.Create(c.keyPath())
		if !errors.Is(err, atomicfile.ErrBusy) {
			return pending, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func ours(cert *x509.Certificate) bool {
	return len(cert.Issuer.Organization) == 1 && cert.Issuer.Organization[0] == issuer
}

// inspect reads the certificate that is there, nil if there is none, and says why
// it will not do; it does if the reason is empty.
func (c *certificate) inspect() (cert *x509.Certificate, reason string, err error) {
	certPEM, err := os.ReadFile(c.certPath())
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(c.keyPath()); err == nil {
			// This command writes the certificate first.
			return nil, "", fmt.Errorf("%s has no certificate beside it: put the certificate there, or move the key away", c.keyPath())
		}
		return nil, "there is none", nil
	}
	if err != nil {
		return nil, "", err
	}
	block, _ := pem.Decode(certPEM)
	if block == nil {
		return nil, "", fmt.Errorf("%s holds no certificate in PEM form: move it away", c.certPath())
	}
	if cert, err = x509.ParseCertificate(block.Bytes); err != nil {
		return nil, "", fmt.Errorf("%s: %w: move it away", c.certPath(), err)
	}
	keyPEM, err := os.ReadFile(c.keyPath())
	switch {
	case errors.Is(err, fs.ErrPermission) && !ours(cert):
		return cert, "its key cannot be read by the user who runs this; whether they belong together is not known", nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, "", err
	}
	if _, mismatch := tls.X509KeyPair(certPEM, keyPEM); mismatch != nil {
		reason = "the key is missing or of another certificate"
		if !ours(cert) {
			return nil, "", fmt.Errorf("%s: %s: put the right one beside it as %s", c.certPath(), reason, c.keyPath())
		}
	} else {
		reason = c.refuse(cert)
	}
	return cert, reason, nil
}

// refuse says why a certificate will not do, or nothing.
func (c *certificate) refuse(cert *x509.Certificate) string {
	if end := cert.NotAfter; c.now().Add(certificateRenew).After(end) {
		return "it ends on " + end.UTC().Format(time.DateOnly)
	}
	for _, host := range c.hosts {
		if strings.HasPrefix(host, "*.") {
			// A wildcard is covered by itself alone.
			same := func(name string) bool { return strings.EqualFold(name, host) }
			if !slices.ContainsFunc(cert.DNSNames, same) {
				return "it does not cover " + host
			}
			continue
		}
		if err := cert.VerifyHostname(host); err != nil {
			return "it does not cover " + host
		}
	}
	return ""
}

// write makes a pair. The certificate comes first: what is left when the program is
// killed before the key is known as ours by it, and made anew by the next.
func (c *certificate) write(key *atomicfile.Pending) (until time.Time, err error) {
	certPEM, keyPEM, until, err := c.generate()
	if err != nil {
		return until, err
	}
	if err := atomicfile.Write(c.certPath(), certPEM, certMode); err != nil {
		return until, err
	}
	return until, key.Fill(keyPEM, keyMode)
}

// Access bits, whatever those of the files before were. Nobody reads a key but its
// owner; balancers read it as root before they start their workers.
const (
	certMode = 0o644
	keyMode  = 0o600
)

// generate makes a key and a certificate for it, both in PEM form.
func (c *certificate) generate() (cert, key []byte, until time.Time, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, until, fmt.Errorf("make a key: %w", err)
	}
	now := c.now()
	until = now.Add(certificateLife)
	template := &x509.Certificate{
		Subject:   pkix.Name{Organization: []string{issuer}, CommonName: c.hosts[0]},
		NotBefore: now.Add(-clockSkew), NotAfter: until,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	for _, host := range c.hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return nil, nil, until, fmt.Errorf("sign the certificate: %w", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, until, fmt.Errorf("encode the key: %w", err)
	}
	cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	return cert, key, until, nil
}
