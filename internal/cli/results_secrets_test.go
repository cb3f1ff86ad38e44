package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"loadstone/block/servertest"
)

// Passwords are generated once, differ, and are for their owner alone but for what an
// exporter and Redis read under users of their own.
func TestResultsSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := []string{"results", "secrets", "--owner", "owner", "--service", "service"}
	read := func() map[string]string {
		t.Helper()
		files := map[string]string{}
		for name, mode := range map[string]os.FileMode{
			"owner/password": 0o600, "owner/pgpass": 0o600, "service/password": 0o600, "service/pgpass": 0o600,
			"service/redis": 0o600, "service/monitor": 0o640, "service/redis.acl": 0o644,
		} {
			path := filepath.Join(dir, name)
			info, err := os.Stat(path)
			if err != nil || info.Mode().Perm() != mode {
				t.Fatalf("%s: got %v and %v, want mode %v", name, info, err, mode)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			files[name] = strings.TrimSpace(string(text))
		}
		return files
	}
	if got := loadstone(t, dir, args...); got.code != exitOK || !strings.Contains(got.stdout, "were generated") {
		t.Fatalf("got %+v", got)
	}
	first := read()
	var passwords []string
	for _, name := range []string{"owner/password", "service/password", "service/monitor", "service/redis"} {
		for _, other := range passwords {
			if first[name] == other {
				t.Errorf("%s is another's password as well", name)
			}
		}
		if passwords = append(passwords, first[name]); len(first[name]) < 26 || strings.Contains(first["service/redis.acl"], first[name]) {
			t.Errorf("%s is short or public", name)
		}
	}
	if first["owner/pgpass"] != "*:*:*:*:"+first["owner/password"] || first["service/pgpass"] != "*:*:*:*:"+first["service/password"] {
		t.Errorf("got %q and %q", first["owner/pgpass"], first["service/pgpass"])
	}
	if got := loadstone(t, dir, args...); got.code != exitOK || !strings.Contains(got.stdout, "are there already") {
		t.Errorf("got %+v", got)
	}
	for name, text := range read() {
		if text != first[name] {
			t.Errorf("%s was changed", name)
		}
	}
}

// Redis with these users lets nobody read a page without the password, and everybody
// see that it is well.
func TestRedisAsksForTheGeneratedPassword(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	loadstone(t, dir, "results", "secrets", "--owner", "owner", "--service", "service")
	redis := servertest.Redis(t, "--aclfile", filepath.Join(dir, "service", "redis.acl"))
	for _, c := range []struct{ command, want string }{
		{"PING", "PONG"}, {"GET x", "NOPERM"}, {"FLUSHALL", "NOPERM"}, {"KEYS *", "NOPERM"}, {"SLOWLOG GET", "NOPERM"}, {"CONFIG SET maxmemory 1", "NOPERM"},
	} {
		host, port, _ := strings.Cut(redis.Addr(), ":")
		got, _ := exec.Command("redis-cli", append([]string{"-h", host, "-p", port}, strings.Fields(c.command)...)...).CombinedOutput()
		if !strings.Contains(string(got), c.want) {
			t.Errorf("%s without a password: got %q, want %s", c.command, got, c.want)
		}
	}
	to := "--redis redis://results@" + redis.Addr()
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"seed --students 300 --store sqlite:r.db", exitOK, "holds"},
		{"preload --store sqlite:r.db " + to, exitFailed, "preload"},
		{"preload --store sqlite:r.db " + to + " --redis-password-file service/nothing", exitUsage, "--redis-password-file: open service/nothing"},
		{"preload --store sqlite:r.db " + to + " --redis-password-file service/redis", exitOK, "300 written"},
		{"roles --store sqlite:r.db --owner owner --service service", exitUsage, "only PostgreSQL has roles"},
		{"roles --store postgres://u@127.0.0.1:1/d --owner none --service none", exitFailed, "none/"},
		{"roles --store postgres://u@127.0.0.1:1/d", exitUsage, "--owner"},
		{"secrets --owner x", exitUsage, "--service"},
	} {
		got := loadstone(t, dir, append([]string{"results"}, strings.Fields(c.args)...)...)
		if output := got.stdout + got.stderr; got.code != c.code || !strings.Contains(output, c.want) {
			t.Errorf("loadstone results %s: exit status %d, want %d with %q:\n%s", c.args, got.code, c.code, c.want, output)
		}
	}
}
