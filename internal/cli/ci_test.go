package cli

import (
	"context"
	"encoding/xml"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

// TestCIExamplesRun runs what the examples for CI run, but for getting and building the
// program, each in a shell of its own as CI does.
func TestCIExamplesRun(t *testing.T) {
	for name, scripts := range map[string][]string{"github.yaml": githubScripts(t), "gitlab.yaml": gitlabScripts(t)} {
		if all := strings.Join(scripts, "\n"); !strings.Contains(all, "--junit") {
			t.Fatalf("%s has no load that writes JUnit XML: %s", name, all)
		}
		dir := t.TempDir()
		// CI ends what a job leaves running. The port is one that is free.
		text := strings.ReplaceAll(strings.Join(scripts, "\n"), "127.0.0.1:8080", freeAddress(t))
		// How fast it is depends on the machine; that the commands run does not.
		text = responseTimes.ReplaceAllString(text, "p(95)<60000")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "bash", "-c", "set -eo pipefail; trap 'kill $(jobs -p); wait' EXIT\n"+text)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"))
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v:\n%s\n%s", name, err, text, out)
		}
		data, err := os.ReadFile(filepath.Join(dir, "load.xml"))
		if err != nil {
			t.Fatal(err)
		}
		var report struct {
			Tests    int `xml:"tests,attr"`
			Failures int `xml:"failures,attr"`
			Suites   []struct {
				Cases []struct {
					Name string `xml:"name,attr"`
				} `xml:"testcase"`
			} `xml:"testsuite"`
		}
		if err := xml.Unmarshal(data, &report); err != nil || report.Tests != 2 || report.Failures != 0 || report.Suites[0].Cases[0].Name != "http_req_failed: rate<0.01" {
			t.Errorf("%s: %v, %+v of\n%s", name, err, report, data)
		}
	}
}

func readExample(t *testing.T, name string, to any) {
	t.Helper()
	data, err := os.ReadFile(repository(t, "docs/ci/"+name))
	if err == nil {
		err = yaml.Unmarshal(data, to)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// githubScripts are the scripts of the job's steps.
func githubScripts(t *testing.T) (out []string) {
	t.Helper()
	var workflow struct {
		Jobs map[string]struct {
			RunsOn string `yaml:"runs-on"`
			Steps  []struct{ Name, Uses, Run string }
		}
	}
	readExample(t, "github.yaml", &workflow)
	job := workflow.Jobs["load"]
	for _, step := range job.Steps {
		if (step.Uses == "") == (step.Run == "") {
			t.Errorf("step %q uses %q and runs %q; want one of the two", step.Name, step.Uses, step.Run)
		}
		if step.Run != "" && !strings.HasPrefix(step.Run, "make ") {
			out = append(out, step.Run)
		}
	}
	if job.RunsOn == "" {
		t.Error("the job runs nowhere")
	}
	return out
}

// gitlabScripts are the lines of the job's script.
func gitlabScripts(t *testing.T) []string {
	t.Helper()
	var jobs map[string]struct {
		Script    []string
		Artifacts struct {
			Reports map[string]string
		}
	}
	readExample(t, "gitlab.yaml", &jobs)
	if got := jobs["load"].Artifacts.Reports["junit"]; got != "load.xml" {
		t.Errorf("the report is %q, want load.xml", got)
	}
	return jobs["load"].Script
}

// freeAddress is an address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
