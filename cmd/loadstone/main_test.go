package main

import (
	"crypto/x509"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// Where the system has no certificates, as in the image, those of known authorities are trusted.
func TestAuthoritiesWithoutASystems(t *testing.T) {
	t.Parallel()
	const inside = "LOADSTONE_TEST_AUTHORITIES"
	if os.Getenv(inside) == "" {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
		child.Env = append(os.Environ(), inside+"=1", "SSL_CERT_FILE=/none", "SSL_CERT_DIR=/none")
		if out, err := child.CombinedOutput(); err != nil {
			t.Errorf("without the system's certificates: %v\n%s", err, out)
		}
		return
	}
	trusted := 0
	for root := range bundle.Roots() {
		certificate, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			t.Fatal(err)
		}
		_, err = certificate.Verify(x509.VerifyOptions{CurrentTime: certificate.NotBefore})
		switch {
		case root.Constraint != nil: // trusted for certificates that it issued before some day
		case err != nil:
			t.Errorf("%s: %v", certificate.Subject, err)
		default:
			trusted++
		}
	}
	if trusted < 50 {
		t.Errorf("%d authorities are trusted, want most of Mozilla's", trusted)
	}
}
