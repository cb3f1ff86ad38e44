package servertest

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// S3Server is a Versity S3 Gateway over a directory, with one bucket.
type S3Server struct {
	*Process

	// URL is the bucket's.
	URL string
	// Dir is where the bucket's objects are, as files of their names.
	Dir string
	// AccessKey and SecretKey are the account's.
	AccessKey, SecretKey string
}

// S3 starts a server. The directory outlives Kill.
func S3(tb testing.TB) *S3Server {
	tb.Helper()
	const bucket, access, secret = "bucket", "access", "a secret of tests"
	dir, host := tb.TempDir(), Host()
	root := filepath.Join(dir, "root")
	if err := os.MkdirAll(filepath.Join(root, bucket), 0o700); err != nil {
		tb.Fatal(err)
	}
	addr := net.JoinHostPort(host, "7070")
	s := &S3Server{URL: "http://" + addr + "/" + bucket, Dir: filepath.Join(root, bucket), AccessKey: access, SecretKey: secret}
	s.Process = New(tb, Program{
		Command: []string{tool(tb, "versitygw"), "--port", addr, "--quiet", "posix", root},
		Env:     []string{"ROOT_ACCESS_KEY=" + access, "ROOT_SECRET_KEY=" + secret, "HOME=" + dir},
		Dir:     dir, Log: filepath.Join(dir, "log"), Ready: Dials(addr),
	})
	s.Start()
	return s
}

// tool finds a program that scripts/setup has built: on the PATH, as the Makefile sets it, or where it was put.
func tool(tb testing.TB, name string) string {
	tb.Helper()
	path, err := exec.LookPath(name)
	for dir := ".."; err != nil && len(dir) < 30; dir = filepath.Join("..", dir) {
		path, err = exec.LookPath(filepath.Join(dir, ".tools", "bin", name))
	}
	if err != nil {
		Missing(tb, name+" is not installed: run scripts/setup")
	}
	if path, err = filepath.Abs(path); err != nil {
		tb.Fatal(err)
	}
	return path
}
