package cli

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// An interrupted run is reported on as far as it went, and stays a failure.
func TestInterruptedRunIsReportedInPart(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(program, "run", small(t, dir))
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	var second string // its variant: the seed draws the order
	eventually(t, "the second trial is under load", func() bool {
		logs, _ := filepath.Glob(filepath.Join(dir, "runs/*/trials/002-*/logs/generator.log"))
		if len(logs) > 0 {
			_, second, _ = strings.Cut(filepath.Base(filepath.Dir(filepath.Dir(logs[0]))), "-")
		}
		return len(logs) > 0
	})
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
		t.Errorf("got %v, want exit status %d", err, exitFailed)
	}
	nothingLeft(t, "")
	partial := "1 of 2 trials; the run was stopped; left out, for lack of a trial that ended: " + second
	runDir, err := filepath.Rel(dir, onlyRun(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	if got := oneLine(stderr.String()); !strings.Contains(got, "stopped before it was done the report is partial: "+partial+"; it is in "+runDir) {
		t.Errorf("standard error does not say what is left: %s", got)
	}
	if got := oneLine(stdout.String()); !strings.Contains(got, "! partial: "+partial) || !strings.Contains(got, "report "+runDir) {
		t.Errorf("the report does not say that it is partial: %s", got)
	}
	r := derivedResult(t, filepath.Join(dir, runDir))
	if r.Partial != partial || len(r.Variants) != 1 || r.Variants[0].Trials != 1 || len(r.Variants[0].Curve) == 0 {
		t.Errorf("got %q with %+v", r.Partial, r.Variants)
	}
	page, err := os.ReadFile(filepath.Join(dir, runDir, "report.html"))
	if err != nil || !strings.Contains(string(page), "partial: "+partial) {
		t.Errorf("report.html does not say that it is partial: %v", err)
	}
	if again := loadstone(t, dir, "report", filepath.Base(runDir), "--format", "markdown"); again.code != exitOK || !strings.Contains(again.stdout, "partial: 1 of 2 trials") {
		t.Errorf("report: exit status %d\n%s%s", again.code, again.stdout, again.stderr)
	}
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// A trial that fails does not take the others with it.
func TestFailedTrialLeavesTheOthers(t *testing.T) {
	dir := t.TempDir()
	self, errSelf := os.Executable()
	if errSelf != nil {
		t.Fatal(errSelf)
	}
	for name, text := range map[string]string{
		"compose.yaml": `name: crashing
services:
  web:
    image: web
    x-process: [` + self + `]
    environment: {` + badServer + `: "200"}
    expose: ["8080"]
    healthcheck: {test: [CMD, "true"], interval: 100ms}
`,
		"crash.yaml": `name: crash
system: compose.yaml
entry: web
variants:
  good: {}
  bad: {services: {web: {x-process: [sh, -c, "sleep 1; exit 7"]}}}
load: {scenarios: {get: {executor: constant-arrival-rate, rate: 20/s, duration: 3s, request: GET /}}}
measure: load
trials: 1
seed: 1 # with which the good one comes first
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := loadstone(t, dir, "run", "crash.yaml")
	if out := oneLine(got.stdout); got.code != exitFailed || !strings.Contains(out, "partial: 1 of 2 trials; the run failed: trial 2 (bad)") {
		t.Errorf("exit status %d\n%s\n%s", got.code, got.stdout, got.stderr)
	}
	if err := oneLine(got.stderr); !strings.Contains(err, "status 7") || !strings.Contains(err, "it is in runs/") {
		t.Errorf("standard error: %s", err)
	}
	nothingLeft(t, "")
}

// cutRun leaves the first trials of the planted run dir, as a kill would.
func cutRun(t *testing.T, dir string, trials int) {
	t.Helper()
	records, err := filepath.Glob(filepath.Join(dir, "trials", "*", "trial.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(records[trials:], filepath.Join(dir, "complete.json")) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPartialRunsAreRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plantRuns(t, dir)
	cutRun(t, filepath.Join(dir, "runs", "20260601-080100-checkout"), 3)
	// A copy of the first that lacks one trial, and is worse in nothing.
	if err := os.CopyFS(filepath.Join(dir, "runs", "copy"), os.DirFS(filepath.Join(dir, "runs", "20260601-080000-checkout"))); err != nil {
		t.Fatal(err)
	}
	cutRun(t, filepath.Join(dir, "runs", "copy"), 11)
	if err := os.Rename(filepath.Join(dir, "runs"), filepath.Join(dir, "kept")); err != nil {
		t.Fatal(err)
	}
	const partial = "3 of 12 trials; its end was not recorded"
	for name, c := range map[string]struct {
		args           string
		code           int
		stdout, stderr string
	}{
		"latest is whole":            {"report latest --runs kept", exitOK, "raw kept/20260601-080000-checkout", "20260601-080100-checkout is newer but incomplete"},
		"the run by prefix":          {"report 20260601-0801 --runs kept", exitOK, "partial: " + partial, ""},
		"as markdown":                {"report 20260601-0801 --runs kept --format markdown", exitOK, "partial: " + partial, ""},
		"compared":                   {"compare 20260601-0800 20260601-0801 --runs kept", exitOK, "20260601-080100-checkout is partial: " + partial, ""},
		"compared as a gate":         {"compare 20260601-0800 20260601-0801 --runs kept --fail-if-worse 5%", exitFailed, "", "could not be compared"},
		"no worse as far as it goes": {"compare 20260601-0800 copy --runs kept --fail-if-worse 5%", exitFailed, "No difference was found", "no measured figure is worse, but copy is partial: 11 of 12 trials"},
		"a gate within":              {"compare 20260601-0801 --runs kept --fail-if-worse 5%", exitFailed, "", "could not be compared"},
		"predicted":                  {"predict 20260601-0801 --runs kept", exitOK, "plain", "is partial: " + partial},
	} {
		got := loadstone(t, dir, strings.Fields(c.args)...)
		if got.code != c.code || !strings.Contains(oneLine(got.stdout), c.stdout) || !strings.Contains(oneLine(got.stderr), c.stderr) {
			t.Errorf("%s: exit status %d\n%s\n%s", name, got.code, got.stdout, got.stderr)
		}
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plantRuns(t, dir)
	small(t, dir)
	for args, want := range map[string]string{
		"report ":                          "latest 20260601-080100-checkout 20260601-080000-checkout",
		"compare latest~1 ":                "latest 20260601-080100-checkout 20260601-080000-checkout",
		"predict latest --variant ":        "plain cached",
		"run small.yaml --variants ":       "query snapshot",
		"run ":                             "yaml yml",
		"up ":                              "results",
		"report latest --format ":          "text markdown",
		"run small.yaml --variants query,": "query,snapshot",
	} {
		got := loadstone(t, dir, append([]string{"__complete"}, strings.Split(args, " ")...)...)
		if !strings.Contains(oneLine(got.stdout), want) {
			t.Errorf("%s: got %q, want %q", args, got.stdout, want)
		}
	}
}

// The reason is a whole sentence, and what a program wrote last is kept below it.
func TestReasonsAreNotCutInTheMiddle(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 100)
	for text, want := range map[string]string{
		"no room": "no room",
		"trial 2 (bad): api-1 exited with status 7 while it should run; its last lines (of logs/api-1.log):\n    a\n    b": "trial 2 (bad): api-1 exited with status 7 while it should run; its last lines are in logs/api-1.log\n    a\n    b",
		long: strings.Repeat("word ", mostReason/5-1) + "word…\n" + strings.TrimRight(long, "\n"),
	} {
		if got := shortened(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}
