package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loadstone/block/servertest"
)

const k6Script = `import http from 'k6/http';
export const options = {vus: 2, duration: '2s', thresholds: {http_req_failed: ['rate<0.01']}};
export default function () { http.get(__ENV.BASE_URL + '/student/7'); }
`

// writeScript writes a k6 script.
func writeScript(t *testing.T, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "script.js"), []byte(k6Script), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A k6 that writes what the real one wrote once takes a script as an argument: what is
// made of its output, its exit status and its time.
func TestLoadOfARecordedK6(t *testing.T) {
	dir := t.TempDir()
	writeScript(t, dir)
	recorded, err := filepath.Abs("../../lab/load/k6/testdata/recorded.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "k6"), []byte("#!/bin/sh\ncat '"+recorded+"' >&3\nexit 99\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	loadOfAScript(t, dir)
}

func TestLoadOfAK6Script(t *testing.T) {
	servertest.Large(t)
	dir := t.TempDir()
	writeScript(t, dir)
	loadOfAScript(t, dir)
}

func loadOfAScript(t *testing.T, dir string) {
	t.Helper()
	got := loadstone(t, dir, "load", "script.js", "--target", shop(t), "--json", "r.json", "--threshold", "http_req_duration: p(95)<5000")
	// The shop knows no students: k6's own threshold is crossed.
	if got.code != exitCrossed || !strings.Contains(got.stdout, "note: k6 measures service time only") {
		t.Fatalf("exit status %d:\n%s%s", got.code, got.stdout, got.stderr)
	}
	data, err := os.ReadFile(filepath.Join(dir, "r.json"))
	if err != nil {
		t.Fatal(err)
	}
	if r := readResult(t, string(data)); r.Requests < 10 || r.Generator.CPU <= 0 {
		t.Errorf("got %+v, want some requests and k6's CPU time", r)
	}
}

func TestRunOfAK6Script(t *testing.T) {
	servertest.Large(t)
	dir := t.TempDir()
	writeScript(t, dir)
	experiment := small(t, dir)
	text, err := os.ReadFile(experiment)
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := strings.Cut(string(text), "load:\n")
	if err := os.WriteFile(experiment, []byte(before+"load: {k6: script.js}\nslo: {http_req_duration: [p(95)<2000]}\nmeasure: load\ntrials: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := loadstone(t, dir, "run", experiment, "--variants", "snapshot")
	if got.code != exitOK || !strings.Contains(got.stdout, "snapshot") {
		t.Fatalf("exit status %d:\n%s%s", got.code, got.stdout, got.stderr)
	}
	runs, err := filepath.Glob(filepath.Join(dir, "runs", "*", "result.json"))
	if err != nil || len(runs) != 1 {
		t.Fatalf("runs %v, %v; want one", runs, err)
	}
	nothingLeft(t, "")
}

// The shipped script finds every student, takes its settings, and fails where
// there are no students.
func TestResultsScript(t *testing.T) {
	servertest.Large(t)
	dir := t.TempDir()
	writeScript(t, dir)
	script, err := filepath.Abs("../../system/results/k6/results.js")
	if err != nil {
		t.Fatal(err)
	}
	_, address := startServe(t)
	for target, want := range map[string]int{"http://" + address: exitOK, shop(t): exitCrossed} {
		file := "load: {target: '" + target + "', k6: {script: " + script +
			", env: {VUS: '5', RAMP: 1s, HOLD: 1s, THINK: '0.05', FIRST_ID: '1', LAST_ID: '1000'}}}\n"
		if err := os.WriteFile(filepath.Join(dir, "load.yaml"), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		got := loadstone(t, dir, "load", "load.yaml")
		if got.code != want {
			t.Errorf("%s: exit status %d, want %d:\n%s%s", target, got.code, want, got.stdout, got.stderr)
		}
		if want == exitOK && !strings.Contains(got.stdout, "✓ it is the student who was asked for") {
			t.Errorf("the script's checks are not in the summary:\n%s", got.stdout)
		}
	}
}
