package cli

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"loadstone/block/servertest"
)

func TestResultsPreload(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	redis.Command("ACL", "SETUSER", "u", "on", ">secret", "~*", "&*", "+@all")
	to := "--redis redis://u:secret@" + redis.Addr()
	dir := t.TempDir()
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"seed --students 1000 --store sqlite:r.db", exitOK, "holds"},
		{"preload --store sqlite:r.db " + to, exitOK, "has the pages of seed 1, 1000 students: 1000 written"},
		{"preload --store sqlite:r.db " + to, exitOK, "already has the pages of seed 1, 1000 students; nothing to do"},
		{"preload --store sqlite:none.db " + to, exitFailed, "none.db"},
		{"preload --store snapshot:r.snapshot " + to, exitUsage, "reads a database"},
		{"preload --store sqlite:r.db", exitUsage, "--redis"},
		{"preload --store sqlite:r.db --redis redis://u:secret@h:port", exitUsage, "redis://[USER:PASSWORD@]HOST"},
		{"preload --store sqlite:r.db --redis redis://u:secret@127.0.0.1:1", exitFailed, "127.0.0.1:1"},
		{"serve --store sqlite:r.db --cache redis", exitUsage, "redis://[USER:PASSWORD@]HOST"},
		{"serve --store sqlite:r.db --cache disk", exitUsage, "memory+redis"},
		{"serve --store sqlite:r.db --page maybe", exitUsage, "--page"},
		{"serve --store sqlite:r.db --secure-cookie maybe", exitUsage, "secure cookie"},
		{"page --down", exitOK, "</html>"},
		{"page", exitUsage, "--down"},
		{"page --down --language xx", exitUsage, "en"},
	} {
		got := loadstone(t, dir, append([]string{"results"}, strings.Fields(c.args)...)...)
		if output := got.stdout + got.stderr; got.code != c.code || !strings.Contains(output, c.want) || strings.Contains(output, "secret") {
			t.Errorf("loadstone results %s: exit status %d, want %d with %q and no password:\n%s", c.args, got.code, c.code, c.want, output)
		}
	}
}

// Without its database and Redis a server starts, says so without a password, and
// stops when it is told.
func TestServeStartsAlone(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(program, "results", "serve", "--store", "postgres://u:secret@127.0.0.1:1/db", "--cache", "memory+redis",
		"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--drain", "0s")
	cmd.Env = append(cmd.Environ(), "RESULTS_REDIS=redis://u:secret@127.0.0.1:1")
	out := &text{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for deadline := time.Now().Add(2 * time.Minute); !strings.Contains(out.String(), `"msg":"listening"`); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) || len(ended) > 0 {
			_ = cmd.Process.Kill()
			t.Fatalf("it does not listen: %s", out.String())
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("got %v, want exit status 0: %s", err, out.String())
	}
	logs := out.String()
	for _, want := range []string{"starting without the database", "redis://u:xxxxx@127.0.0.1:1"} {
		if !strings.Contains(logs, want) {
			t.Errorf("the log has no %q:\n%s", want, logs)
		}
	}
	if strings.Contains(logs, "secret") || strings.Contains(logs, "panic") {
		t.Errorf("the log shows the password:\n%s", logs)
	}
}
