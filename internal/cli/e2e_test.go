package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"loadstone/lab/driver/guardian"
	"loadstone/lab/host/cgroup"
	"loadstone/lab/result"
)

// program is the real binary, built once for all tests of this package.
var program string

func TestMain(m *testing.M) {
	if how := os.Getenv(badServer); how != "" {
		os.Exit(serveBadly(how))
	}
	os.Exit(func() int {
		if err := enterNetwork(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		dir, err := os.MkdirTemp("", "loadstone-e2e-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, "loadstone")
		build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", program, "loadstone/cmd/loadstone")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build the program: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// enterNetwork starts this program again in a network name space that has loopback
// alone: the shipped systems and the documents' commands have fixed ports, which
// somebody else may use on this machine. Only root may make one; others do without.
func enterNetwork() error {
	const inside = "LOADSTONE_TEST_NETWORK"
	if os.Geteuid() != 0 || os.Getenv(inside) != "" {
		return nil
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		return err
	}
	argv := append([]string{unshare, "--net", "sh", "-c", `PATH=$PATH:/usr/sbin:/sbin ip link set lo up && exec "$0" "$@"`}, os.Args...)
	return syscall.Exec(unshare, argv, append(os.Environ(), inside+"=1"))
}

// outcome is how one call of the program ended.
type ended struct {
	code           int
	stdout, stderr string
}

// loadstone runs the program in dir and waits for it.
func loadstone(t *testing.T, dir string, args ...string) ended {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("loadstone %s: %v", strings.Join(args, " "), err)
	}
	return ended{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// eventually polls until ok holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if ok() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within two minutes: %s", what)
		}
	}
}

// small writes an experiment over the shipped results system with few students
// and short trials, and returns its path.
func small(t *testing.T, dir string, edit ...string) string {
	t.Helper()
	compose, err := filepath.Abs("../../system/results/compose.embedded.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer(edit...).Replace(`name: small
question: Is a snapshot faster?
system: ` + compose + `
entry: api
variants:
  query:
    services: &small
      seed: {command: [results, seed, --store, "sqlite:${DATA_VOLUME:-/data}/results.db", --students, "2000"]}
      api: {environment: {RESULTS_ACCESS: open}}
  snapshot:
    services:
      seed: {command: [results, seed, --store, "sqlite:${DATA_VOLUME:-/data}/results.db", --students, "2000"]}
      api: {environment: {RESULTS_ACCESS: open, RESULTS_STORE: "snapshot:${DATA_VOLUME:-/data}/results.snapshot"}}
load:
  scenarios:
    lookup:
      executor: constant-arrival-rate
      request: GET /student/{id}
      feed: {id: {uniform: [1, 2000]}}
slo:
  http_req_duration: [p(95)<2000]
  http_req_failed: [rate<0.001]
measure: capacity
trials: 1
search: {budget: 4s}
`)
	path := filepath.Join(dir, "small.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// measured runs the small experiment and returns the directory. Where so much else runs
// that no rate holds, it is run again.
func measured(t *testing.T, edit []string, args ...string) (dir string, got ended) {
	t.Helper()
	for range 5 {
		dir = t.TempDir()
		if got = loadstone(t, dir, append([]string{"run", small(t, dir, edit...)}, args...)...); got.code != exitCrossed {
			break
		}
	}
	if got.code != exitOK {
		t.Fatalf("exit status %d\n%s\n%s", got.code, got.stdout, got.stderr)
	}
	return dir, got
}

func TestRunMeasuresAndReports(t *testing.T) {
	dir, got := measured(t, nil, "--seed", "3")
	for _, want := range []string{"2 trials, at least about 12 s", "trial 1/2", " left\n", "trial 2/2"} {
		if !strings.Contains(got.stderr, want) {
			t.Errorf("progress lacks %q:\n%s", want, got.stderr)
		}
	}
	if strings.ContainsRune(got.stdout+got.stderr, '\x1b') {
		t.Error("there are escape sequences in a pipe")
	}
	runDir := onlyRun(t, dir)
	first := derivedResult(t, runDir)
	checkResult(t, first)
	nothingLeft(t, runDir)

	// The report is a function of the raw data.
	if err := os.Remove(filepath.Join(runDir, "result.json")); err != nil {
		t.Fatal(err)
	}
	if again := loadstone(t, dir, "report", runDir); again.code != exitOK {
		t.Fatalf("report: exit status %d\n%s", again.code, again.stderr)
	}
	second := derivedResult(t, runDir)
	a, _ := json.Marshal(first)
	b, _ := json.Marshal(second)
	if !bytes.Equal(a, b) {
		t.Error("the report that was derived again differs")
	}
}

func checkResult(t *testing.T, r *result.Result) {
	t.Helper()
	if r.Seed != 3 || len(r.Variants) != 2 || len(r.Comparisons) != 1 {
		t.Fatalf("seed %d, %d variants, %d comparisons; want 3, 2, 1", r.Seed, len(r.Variants), len(r.Comparisons))
	}
	if c := r.Comparisons[0]; c.Variant != "snapshot" || c.Ratio <= 0 {
		t.Errorf("comparison %+v: want one of the snapshot", c)
	}
	// Which of the two carries more one short trial on a busy machine does not tell.
	for _, v := range r.Variants {
		if len(v.Components) != 1 || v.Components[0].DemandMS <= 0 {
			t.Errorf("%s: components %+v, want the api and what a request costs it", v.Name, v.Components)
		}
	}
	if r.Environment.Cores == 0 || r.Environment.Kernel == "" || r.Environment.Driver != "process" {
		t.Errorf("environment %+v is not filled in", r.Environment)
	}
	if s := r.Environment.Speed; s == nil || s.Work == "" || s.Least.ComputingMS <= 0 || s.Least.MemoryMS <= 0 {
		t.Errorf("nothing is known of how fast the machine was: %+v", s)
	}
	for _, v := range r.Variants {
		if len(v.Figures) != 1 || v.Figures[0].Speed == nil {
			t.Errorf("%s: figures %+v, want one trial's with the speed of the machine", v.Name, v.Figures)
		}
		if v.Capacity == nil || v.Capacity.Value <= 0 || v.Capacity.Unit != "req/s" {
			t.Errorf("%s: capacity %+v", v.Name, v.Capacity)
		}
		if len(v.Components) != 1 || v.Components[0].Name != "api" || v.Components[0].DemandMS <= 0 {
			t.Errorf("%s: components %+v; want api with a demand", v.Name, v.Components)
		}
		if v.Latency.Response.P95 <= 0 || v.Latency.Response.P95 < v.Latency.Service.P50 {
			t.Errorf("%s: latency %+v", v.Name, v.Latency)
		}
		if v.Verdict.Status == "" || v.Verdict.Summary == "" || len(v.SLO) != 2 || len(v.Curve) == 0 {
			t.Errorf("%s: verdict %+v, %d SLO lines, %d points", v.Name, v.Verdict, len(v.SLO), len(v.Curve))
		}
	}
}

func onlyRun(t *testing.T, dir string) string {
	t.Helper()
	runs, err := filepath.Glob(filepath.Join(dir, "runs", "*"))
	if err != nil || len(runs) != 1 {
		t.Fatalf("runs: %v, %v; want one", runs, err)
	}
	return runs[0]
}

func derivedResult(t *testing.T, runDir string) *result.Result {
	t.Helper()
	f, err := os.Open(filepath.Join(runDir, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := result.ReadJSON(f)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(runDir, "report.html")); err != nil || info.Size() == 0 {
		t.Errorf("report.html: %v", err)
	}
	return r
}

// nothingLeft checks that no process and no control group of a run is there.
// Processes of the run are known by its directory, which their logs lie in, or
// by the program of this test.
func nothingLeft(t *testing.T, _ string) {
	t.Helper()
	eventually(t, "every process and control group of the run is gone", func() bool {
		return len(processes(t)) == 0 && len(groups(t)) == 0
	})
}

// processes are those of the program under test.
func processes(t *testing.T) []string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, link := range links {
		if exe, err := os.Readlink(link); err == nil && strings.TrimSuffix(exe, " (deleted)") == program {
			out = append(out, link)
		}
	}
	return out
}

// groups are the control groups of runs whose lab is gone.
func groups(t *testing.T) []string {
	t.Helper()
	tree, err := cgroup.Detect("/proc", "/")
	if err != nil {
		return nil
	}
	names, err := tree.Names()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, n := range names {
		var lab guardian.Process
		if _, err := fmt.Sscanf(n, "loadstone-%d-%d-", &lab.PID, &lab.Start); err != nil {
			continue
		}
		if !lab.Alive("/proc") {
			out = append(out, n)
		}
	}
	return out
}

// start starts a run in the background and returns once load is on.
func start(t *testing.T, dir, experiment string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(program, "run", experiment)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	eventually(t, "the first second of load is written", func() bool {
		logs, _ := filepath.Glob(filepath.Join(dir, "runs/*/trials/*/logs/generator.log"))
		return len(logs) > 0
	})
	return cmd
}

func TestKilledRunLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	cmd := start(t, dir, small(t, dir, "budget: 4s", "budget: 60s"))
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	nothingLeft(t, "")
	refusedAsIncomplete(t, dir)
}

func TestInterruptedRunLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	cmd := start(t, dir, small(t, dir, "budget: 4s", "budget: 60s"))
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
		t.Errorf("got %v, want exit status %d", err, exitFailed)
	}
	nothingLeft(t, "")
	refusedAsIncomplete(t, dir)
}

func refusedAsIncomplete(t *testing.T, dir string) {
	t.Helper()
	got := loadstone(t, dir, "report", onlyRun(t, dir))
	if got.code != exitFailed || !strings.Contains(got.stderr, "is incomplete, and none of its 2 trials was completed") {
		t.Errorf("report of a stopped run: exit status %d, %q", got.code, got.stderr)
	}
	if files, _ := filepath.Glob(filepath.Join(onlyRun(t, dir), "re[ps]*.*")); len(files) > 0 {
		t.Errorf("a stopped run has a report: %v", files)
	}
}

// Mistakes are found before anything starts: no run directory is made.
func TestWrongExperiments(t *testing.T) {
	for name, c := range map[string]struct {
		edit []string
		want []string // in the message; the first is where
	}{
		"unknown key":                {[]string{"trials: 1", "trails: 1"}, []string{"small.yaml:24:1", "trails", "trials"}},
		"unknown service":            {[]string{"      api: {environment: {RESULTS_ACCESS: open}}", "      apy: {environment: {RESULTS_ACCESS: open}}"}, []string{"small.yaml:9:7", "apy", "api"}},
		"entry that is no service":   {[]string{"entry: api", "entry: web"}, []string{"small.yaml:4:8", "web", "api"}},
		"metric that is no product":  {[]string{"http_req_failed: [", "ws_msgs_sent: ["}, []string{"small.yaml:22:3", "ws_msgs_sent", "http_req_duration"}},
		"rate without a unit":        {[]string{"request: GET", "rate: 500\n      request: GET"}, []string{"small.yaml:18:13", "500/s"}},
		"threshold that is none":     {[]string{"p(95)<2000", "p95<2000"}, []string{"small.yaml:21:23", "p(95)"}},
		"system that is not there":   {[]string{"compose.embedded.yaml", "nothing.yaml"}, []string{"small.yaml:3:9", "nothing.yaml"}},
		"overlay that Compose hates": {[]string{"environment: {RESULTS_ACCESS: open}}\n  snap", "environmint: {}}\n  snap"}, []string{"small.yaml:9:13", "environmint"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			got := loadstone(t, dir, "run", small(t, dir, c.edit...))
			if got.code != exitUsage {
				t.Errorf("exit status %d, want %d\n%s", got.code, exitUsage, got.stderr)
			}
			for _, want := range c.want {
				if !strings.Contains(got.stderr, want) {
					t.Errorf("message lacks %q:\n%s", want, got.stderr)
				}
			}
			if _, err := os.Stat(filepath.Join(dir, "runs")); err == nil {
				t.Error("a run was begun")
			}
		})
	}
}

// A service that ends in the middle fails the run, with what it said last.
func TestCrashFailsTheRun(t *testing.T) {
	dir := t.TempDir()
	compose := `name: crashing
services:
  web:
    image: web
    x-process: [sh, -c, "echo about to give up; sleep 1; exit 7"]
    expose: ["8080"]
    healthcheck: {test: [CMD, "true"], interval: 100ms}
`
	if err := os.WriteFile(filepath.Join(dir, "compose.yaml"), []byte(compose), 0o600); err != nil {
		t.Fatal(err)
	}
	experiment := filepath.Join(dir, "crash.yaml")
	if err := os.WriteFile(experiment, []byte(`name: crash
system: compose.yaml
entry: web
variants: {only: {}}
load: {scenarios: {get: {executor: constant-vus, vus: 2, duration: 20s, request: GET /}}}
measure: load
trials: 1
`), 0o600); err != nil {
		t.Fatal(err)
	}
	got := loadstone(t, dir, "run", experiment)
	if got.code != exitFailed || !strings.Contains(got.stderr, "status 7") || !strings.Contains(got.stderr, "about to give up") {
		t.Errorf("exit status %d, %q; want 1 with the status and the last line", got.code, got.stderr)
	}
	nothingLeft(t, "")
}

func TestUsage(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--help"}, exitOK, "loadstone run"},
		{[]string{"frobnicate"}, exitUsage, "frobnicate"},
		{[]string{"run"}, exitUsage, "run --help"},
		{[]string{"run", "--frob", "x.yaml"}, exitUsage, "--frob"},
		{[]string{"run", "nothing.yaml"}, exitUsage, "nothing.yaml"},
		{[]string{"report", "nothing"}, exitUsage, "there is no run"},
		{[]string{"report", "latest", "--format", "html"}, exitUsage, "write text or markdown"},
		{[]string{"version"}, exitOK, "loadstone unknown ("},
		{[]string{"--version"}, exitOK, "loadstone unknown ("},
		{[]string{"load", "nonsense"}, exitUsage, "nonsense"},
		{[]string{"load", "http://127.0.0.1:1/", "--rate", "500"}, exitUsage, "500/s"},
		{[]string{"load", "http://127.0.0.1:1/{id}", "--rate", "500/s"}, exitUsage, "id"},
		{[]string{"load", "http://127.0.0.1:1/", "--vus", "2", "--iterations", "2"}, exitFailed, "refused"},
		{[]string{"schema"}, exitOK, "$schema"},
		{[]string{"schema", "load"}, exitOK, "Loadstone load"},
		{[]string{"schema", "frob"}, exitUsage, "frob"},
		{[]string{"results", "seed", "--store", "redis:x"}, exitUsage, "sqlite:PATH"},
		{[]string{"results", "serve", "--store", "snapshot:nothing"}, exitFailed, "nothing"},
		{[]string{"completion", "bash"}, exitOK, "loadstone"},
	} {
		got := loadstone(t, dir, c.args...)
		if got.code != c.code || !strings.Contains(got.stdout+got.stderr, c.want) {
			t.Errorf("loadstone %s: exit status %d, want %d with %q:\n%s%s",
				strings.Join(c.args, " "), got.code, c.code, c.want, got.stdout, got.stderr)
		}
	}
}
