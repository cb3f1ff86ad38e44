package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// An address that is taken is said to be, with whose it is.
func TestUISaysWhoHoldsItsPort(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plantRuns(t, dir)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	got := loadstone(t, dir, "ui", "--listen", l.Addr().String())
	if want := fmt.Sprintf("(pid %d); stop that", os.Getpid()); got.code != exitFailed || !strings.Contains(got.stderr, want) {
		t.Errorf("exit status %d, %q; want %q", got.code, got.stderr, want)
	}
}

// The program serves the list, and ends with status 0 when it is told to stop.
func TestUIServesAndStops(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plantRuns(t, dir)
	cmd := exec.Command(program, "ui", "--listen", "127.0.0.1:0")
	cmd.Dir = dir
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url, _, _ := strings.Cut(line, " ")
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for path, want := range map[string]string{
		"": "20260601-080000-checkout", "compare?run=20260601-080000-checkout&run=20260601-080100-checkout&relative=1": "relative to plain",
		"runs/20260601-080100-checkout/": "has the highest capacity",
	} {
		resp, err := client.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s%s: got status %d, want %q in %.600s", url, path, resp.StatusCode, want, body)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("told to stop, it ended with %v", err)
	}
}

// The commands of docs/ui.md, over runs that the reader has.
func TestUIDocumentRuns(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/ui.md")
	if err != nil {
		t.Fatal(err)
	}
	scripts := shellBlocks(string(text))
	if len(scripts) == 0 {
		t.Fatal("docs/ui.md has no commands")
	}
	dir := t.TempDir()
	plantRuns(t, dir)
	for _, script := range scripts {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		cmd := exec.CommandContext(ctx, "bash", "-ec", script)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"))
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil {
			t.Errorf("%v\n%s\n%s", err, script, out)
		}
	}
}

func TestUIAndReportRefuse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plantRuns(t, dir)
	run := filepath.Join("runs", "20260601-080000-checkout")
	for name, c := range map[string]struct {
		args, want string
		code       int
	}{
		"no runs":        {"ui --runs nowhere", `no directory of runs "nowhere"`, exitUsage},
		"no address":     {"ui --listen 7787", "write one such as 127.0.0.1:7787", exitUsage},
		"a port too far": {"ui --listen 127.0.0.1:99999", "listen for browsers", exitFailed},
		"an argument":    {"ui runs", "unknown command", exitUsage},
		"no such format": {"report " + run + " --format html", "write text or markdown", exitUsage},
	} {
		got := loadstone(t, dir, strings.Fields(c.args)...)
		if got.code != c.code || !strings.Contains(got.stderr, c.want) || got.stdout != "" {
			t.Errorf("%s: exit status %d, want %d and %q\n%s%s", name, got.code, c.code, c.want, got.stdout, got.stderr)
		}
	}
	got := loadstone(t, dir, "report", run, "--format", "markdown")
	if got.code != exitOK || !strings.HasPrefix(got.stdout, "### checkout") || !strings.Contains(got.stdout, "| **cached** |") {
		t.Errorf("exit status %d\n%s%s", got.code, got.stdout, got.stderr)
	}
}
