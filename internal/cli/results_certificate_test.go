package cli

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// pair is a certificate command for a new directory, at a time that can be moved.
func pair(t *testing.T, hosts ...string) *certificate {
	t.Helper()
	return &certificate{directory: filepath.Join(t.TempDir(), "a", "tls"), hosts: hosts, now: time.Now}
}

// ensured runs it and reads what is there then.
func ensured(t *testing.T, c *certificate, wantMade bool) *x509.Certificate {
	t.Helper()
	made, until, err := c.ensure(t.Context())
	if err != nil || made != wantMade {
		t.Fatalf("got made %t and %v, want %t", made, err, wantMade)
	}
	both, err := tls.LoadX509KeyPair(c.certPath(), c.keyPath())
	if err != nil {
		t.Fatal(err)
	}
	if !both.Leaf.NotAfter.Equal(until.Truncate(time.Second)) {
		t.Errorf("valid until %v, said %v", both.Leaf.NotAfter, until)
	}
	for path, want := range map[string]os.FileMode{c.keyPath(): 0o600, c.certPath(): 0o644} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&^want != 0 {
			t.Errorf("%s: got mode %v and %v, want %v", path, info.Mode(), err, want)
		}
	}
	if names, err := os.ReadDir(c.directory); err != nil || len(names) != 2 {
		t.Errorf("got %v and %v, want two files", names, err)
	}
	return both.Leaf
}

func TestCertificate(t *testing.T) {
	t.Parallel()
	c := pair(t, "localhost", "*.example.org", "127.0.0.1", "::1")
	first := ensured(t, c, true)
	roots := x509.NewCertPool()
	roots.AddCert(first)
	for host, ok := range map[string]bool{
		"localhost": true, "www.example.org": true, "127.0.0.1": true, "::1": true,
		"example.com": false, "127.0.0.2": false,
	} {
		_, err := first.Verify(x509.VerifyOptions{DNSName: host, Roots: roots})
		if (err == nil) != ok {
			t.Errorf("%s: got %v, want it covered %t", host, err, ok)
		}
	}
	if life := first.NotAfter.Sub(first.NotBefore); first.PublicKeyAlgorithm != x509.ECDSA || life < certificateLife || life > certificateLife+2*clockSkew {
		t.Errorf("got %v for %v", first.PublicKeyAlgorithm, life)
	}
	if second := ensured(t, c, false); !second.Equal(first) {
		t.Error("a good certificate was replaced")
	}
	c.hosts = []string{"www.example.org", "LOCALHOST"}
	ensured(t, c, false)
	c.now = func() time.Time { return first.NotAfter.Add(-certificateRenew - time.Minute) }
	ensured(t, c, false)
	c.now = func() time.Time { return first.NotAfter.Add(-certificateRenew + time.Minute) }
	if second := ensured(t, c, true); second.Equal(first) {
		t.Error("a certificate in its last week was kept")
	}
	c.hosts = []string{"*.example.com"}
	ensured(t, c, true)
}

// TestCertificateMendsWhatAKillLeaves: between the two files, and before them.
func TestCertificateMendsWhatAKillLeaves(t *testing.T) {
	t.Parallel()
	c := pair(t, "localhost")
	ensured(t, c, true)
	for name, damage := range map[string]func() error{
		"no key": func() error { return os.Remove(c.keyPath()) },
		"another's key": func() error {
			other := pair(t, "x")
			ensured(t, other, true)
			return os.Rename(other.keyPath(), c.keyPath())
		},
		"half a key": func() error { return os.Truncate(c.keyPath(), 20) },
		"pending files": func() error {
			return errors.Join(os.Remove(c.keyPath()),
				os.WriteFile(c.keyPath()+".building", []byte("x"), 0o600), os.WriteFile(c.certPath()+".building", []byte("x"), 0o600))
		},
		"an open old key": func() error { return errors.Join(os.Truncate(c.keyPath(), 0), os.Chmod(c.keyPath(), 0o644)) },
	} {
		if err := damage(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		ensured(t, c, true)
		ensured(t, c, false)
	}
}

// foreignCertificate is one that a certificate authority has issued.
func foreignCertificate() ([]byte, error) {
	cert, _, err := foreignPair("localhost")
	return cert, err
}

func foreignPair(host string) (cert, private []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{Organization: []string{"An Authority"}},
		NotAfter: time.Now().Add(time.Hour), DNSNames: []string{host},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), err
}

// TestCertificateOfAnotherHost: a system whose owner has put a certificate of his
// own there starts, whatever this command thinks of it.
func TestCertificateOfAnotherHost(t *testing.T) {
	dir := t.TempDir()
	cert, key, err := foreignPair("results.example.org")
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(dir, "tls.crt"), cert, 0o600), os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	got := loadstone(t, dir, "results", "certificate", "--to", ".", "--host", "localhost")
	if got.code != exitOK || !strings.Contains(got.stderr, "was not issued by this program") {
		t.Errorf("exit status %d: %s; want 0 and a warning", got.code, got.stderr)
	}
	if left, err := os.ReadFile(filepath.Join(dir, "tls.crt")); err != nil || !bytes.Equal(left, cert) {
		t.Errorf("the certificate was changed: %v", err)
	}
}

// TestCertificateOfOthers: what this command has not made it does not replace.
func TestCertificateOfOthers(t *testing.T) {
	t.Parallel()
	c := pair(t, "localhost")
	ensured(t, c, true)
	foreign, err := foreignCertificate()
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]struct {
		cert []byte
		want string
	}{
		"another's certificate": {foreign, "put the right one beside it"},
		"no certificate":        {[]byte("hello"), "holds no certificate"},
		"a key alone":           {nil, "no certificate beside it"},
	} {
		if s.cert == nil {
			err = os.Remove(c.certPath())
		} else {
			err = os.WriteFile(c.certPath(), s.cert, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if made, _, err := c.ensure(t.Context()); made || err == nil || !strings.Contains(err.Error(), s.want) {
			t.Errorf("%s: got made %t and %v, want %q", name, made, err, s.want)
		}
		if left, err := os.ReadFile(c.certPath()); string(left) != string(s.cert) || (s.cert != nil) != (err == nil) {
			t.Errorf("%s: it was changed, %v", name, err)
		}
	}
}

func TestCertificatesAtOnce(t *testing.T) {
	t.Parallel()
	c := pair(t, "localhost")
	var group sync.WaitGroup
	var mu sync.Mutex
	count := 0
	for range 16 {
		group.Go(func() {
			made, _, err := c.ensure(context.Background())
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if made {
				count++
			}
		})
	}
	group.Wait()
	if count != 1 {
		t.Errorf("%d were made, want 1", count)
	}
	ensured(t, c, false)
}

// TestKilledCertificates: however often the command is killed, the next run ends
// with a good pair.
func TestKilledCertificates(t *testing.T) {
	t.Parallel()
	c := pair(t, "localhost")
	for i := range 8 {
		cmd := exec.CommandContext(t.Context(), program, "results", "certificate", "--to", c.directory, "--host", "localhost")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(time.Duration(i)*8*time.Millisecond, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // killed, or done before
		timer.Stop()
	}
	if _, _, err := c.ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	ensured(t, c, false)
}

func TestCertificateCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--to tls --host localhost,127.0.0.1", exitOK, "tls/tls.crt was made: it covers localhost, 127.0.0.1 and is valid until 20"},
		{"--to tls --host localhost", exitOK, "tls/tls.crt is there already"},
		{"--to tls", exitUsage, "--host"},
		{"--host localhost", exitUsage, "--to"},
		{"--to tls --host localhost:443", exitUsage, "without a port"},
		{"--to tls --host https://x", exitUsage, "without a port"},
		{"--to /dev/null/x --host x", exitFailed, "certificate in /dev/null/x"},
	} {
		got := loadstone(t, dir, append([]string{"results", "certificate"}, strings.Fields(c.args)...)...)
		if output := got.stdout + got.stderr; got.code != c.code || !strings.Contains(output, c.want) {
			t.Errorf("%s: exit status %d, want %d with %q:\n%s", c.args, got.code, c.code, c.want, output)
		}
	}
}
