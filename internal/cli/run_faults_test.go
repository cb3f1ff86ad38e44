package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"loadstone/lab/archive"
	"loadstone/lab/fault"
	"loadstone/lab/result"
)

// faulty is an experiment on two replicas that are loaded directly, so that a
// killed one is felt. Its system is two files.
func faulty(t *testing.T, dir, duration, faults string) string {
	t.Helper()
	compose, err := filepath.Abs("../../system/results/compose.embedded.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := `name: faulty
system: [` + compose + `, two.yaml]
entry: api
variants: {both: {}}
load:
  warmup: 1s
  scenarios:
    lookup: {executor: constant-arrival-rate, rate: 100/s, duration: ` + duration + `, request: "GET /student/{id}", feed: {id: {uniform: [1, 2000]}}}
slo: {http_req_failed: [rate<0.001]}
faults: [` + faults + `]
watch:
  started: {metric: process_cpu_seconds_total, service: api, as: rate, slo: [max<2]}
measure: load
trials: 1
`
	// The usual port may be taken on all addresses by a system that is up.
	two := `services:
  seed: {command: [results, seed, --store, "sqlite:${DATA_VOLUME:-/data}/results.db", --students, "2000"]}
  api:
    environment: {RESULTS_ACCESS: open, RESULTS_LISTEN: "${BIND_HOST:-0.0.0.0}:18181", RESULTS_ADMIN_LISTEN: "${BIND_HOST:-0.0.0.0}:18182"}
    ports: !override ["18181"]
    labels: {prometheus.io/port: "18182"}
    healthcheck: {test: [CMD, loadstone, results, health, --url, "http://${BIND_HOST:-127.0.0.1}:18181/readyz"]}
    deploy: {replicas: 2, resources: {limits: {cpus: "0.5"}}}
`
	path := filepath.Join(dir, "faulty.yaml")
	for file, text := range map[string]string{path: text, filepath.Join(dir, "two.yaml"): two} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func TestFaultsOfARun(t *testing.T) {
	var dir, path string
	var got ended
	// On a busy machine an instance may not be back when the next fault is due: again then.
	for range 3 {
		dir = t.TempDir()
		path = faulty(t, dir, "43s", `{at: 4s, kill: api, instance: 1, for: 6s}, {at: 34s, pause: api, instance: 2, for: 500ms}, {at: 38s, exec: [sh, -c, "echo at ${API_HOST:-api}"], service: api}`)
		if got = loadstone(t, dir, "run", path); !strings.Contains(got.stderr, "could begin") {
			break
		}
	}
	if got.code != exitCrossed {
		t.Fatalf("exit status %d, want %d: a killed replica that is loaded directly fails requests\n%s\n%s", got.code, exitCrossed, got.stdout, got.stderr)
	}
	runDir := onlyRun(t, dir)
	first := derivedResult(t, runDir)
	v := first.Variants[0]
	if len(v.Faults) != 3 || v.Course == nil || len(v.Course.Faults) != 3 || len(v.Course.Watched) != 1 {
		t.Fatalf("got %d faults, course %+v", len(v.Faults), v.Course)
	}
	kill, pause, exec := v.Faults[0], v.Faults[1], v.Faults[2]
	if kill.Failed == 0 || kill.BadSeconds == 0 || kill.Back == nil || *kill.Back < 6 || kill.Recovered == nil || kill.Before == nil {
		t.Errorf("kill: %+v", kill)
	}
	if pause.Back == nil || *pause.Back < 0.5 || exec.Back == nil || exec.Failed != 0 {
		t.Errorf("pause %+v, exec %+v", pause, exec)
	}
	if last := v.SLO[len(v.SLO)-1]; last.Metric != "started" || !last.Met || last.Observed <= 0 {
		t.Errorf("the watched metric: %+v", last)
	}
	var events []fault.Event
	err := archive.ReadLines(filepath.Join(runDir, "trials", "001-both"), archive.EventsFile, func(e fault.Event) { events = append(events, e) })
	if err != nil || len(events) != 3 || !strings.HasPrefix(events[2].Said, "at 127.77.") || events[0].Instances[0].Launched.IsZero() {
		t.Errorf("recorded %+v, %v", events, err)
	}
	if !strings.Contains(got.stdout, "kill api-1") {
		t.Errorf("the summary says nothing of faults:\n%s", got.stdout)
	}
	eventually(t, "every process of the run is gone", func() bool { return len(processes(t)) == 0 })

	// The report needs neither the system nor the experiment's own file.
	for _, file := range []string{path, filepath.Join(dir, "two.yaml"), filepath.Join(runDir, "result.json")} {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	if again := loadstone(t, dir, "report", runDir); again.code != exitOK {
		t.Fatalf("report: exit status %d\n%s", again.code, again.stderr)
	}
	a, _ := json.Marshal(first)
	b, _ := json.Marshal(derivedResult(t, runDir))
	if !bytes.Equal(a, b) {
		t.Error("the report that was derived again differs")
	}
}

func TestFaultsThatCannotBeAreRefusedBeforeAnythingStarts(t *testing.T) {
	for name, c := range map[string]struct{ faults, want string }{
		"unknown service": {"{at: 4s, kill: apii, for: 2s}", `10:25: fault 1 is about the service "apii", which variant "both" does not run; write api`},
		"a job":           {"{at: 4s, kill: seed, for: 2s}", `10:25: fault 1 is about the service "seed"`},
		"no such replica": {"{at: 4s, kill: api, instance: 3, for: 2s}", "10:40: fault 1 is about instance 3"},
		"after the load":  {"{at: 15s, kill: api}", "10:15: fault 1 begins at 15s, and the load ends at 15s"},
		"no program":      {"{at: 4s, exec: [no-such-program], service: api}", "10:"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			got := loadstone(t, dir, "run", faulty(t, dir, "15s", c.faults))
			if got.code != exitUsage || !strings.Contains(got.stderr, c.want) {
				t.Errorf("exit status %d, want %d and %q\n%s", got.code, exitUsage, c.want, got.stderr)
			}
			if _, err := os.Stat(filepath.Join(dir, "runs")); err == nil {
				t.Error("a run was begun")
			}
		})
	}
}

func TestAFaultThatFailsFailsTheTrial(t *testing.T) {
	dir := t.TempDir()
	got := loadstone(t, dir, "run", faulty(t, dir, "15s", `{at: 3s, exec: [sh, -c, "echo no luck; exit 3"], service: api}`))
	if got.code != exitFailed || !strings.Contains(got.stderr, "fault 1 (exec sh -c echo no luck; exit 3) could not be carried out: exit status 3; it said: no luck") {
		t.Errorf("exit status %d\n%s", got.code, got.stderr)
	}
}

// TestReplicasOfARunAreScaled: a service that is always busy gets the most that it may have.
func TestReplicasOfARunAreScaled(t *testing.T) {
	dir := t.TempDir()
	path := faulty(t, dir, "15s", "")
	busy := `services:
  busy:
    x-process: [sh, -c, "while :; do :; done"]
    deploy: {resources: {limits: {cpus: "0.02"}}}
    x-autoscale:
      minReplicas: 1
      maxReplicas: 3
      syncPeriodSeconds: 1
      metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 1}}}]
`
	if err := os.WriteFile(filepath.Join(dir, "busy.yaml"), []byte(busy), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte("two.yaml]"), []byte("two.yaml, busy.yaml]"), 1)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	got := loadstone(t, dir, "run", path)
	if got.code != exitOK && got.code != exitCrossed {
		t.Fatalf("exit status %d\n%s\n%s", got.code, got.stdout, got.stderr)
	}
	v := derivedResult(t, onlyRun(t, dir)).Variants[0]
	figures := map[string]float64{}
	for _, r := range v.Ratios {
		figures[r.Component+" "+r.Name] = r.Value
	}
	if figures["busy replicas at the most"] != 3 || figures["busy replicas on average"] <= 1 || figures["busy replicas on average"] > 3 {
		t.Errorf("got %v, want 1 to 3 replicas", figures)
	}
	if v.Course == nil || !slices.ContainsFunc(v.Course.Watched, func(m result.CourseMetric) bool {
		return m.Name == "replicas of busy" && *m.Values[len(m.Values)-1] == 3
	}) {
		t.Errorf("the course does not end with 3 replicas: %+v", v.Course)
	}
	if !strings.Contains(got.stdout, "busy replicas on average") {
		t.Errorf("the summary says nothing of replicas:\n%s", got.stdout)
	}
	eventually(t, "every process of the run is gone", func() bool { return len(processes(t)) == 0 })

	for wrong, want := range map[string]string{
		"faults: [{at: 4s, kill: busy, for: 1s}]": "it is scaled, and a fault is about it",
	} {
		key, _, _ := strings.Cut(wrong, ":")
		lines := strings.Split(string(text), "\n")
		for i, line := range lines {
			if strings.HasPrefix(line, key+":") {
				lines[i] = wrong
			}
		}
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := loadstone(t, dir, "run", path); got.code != exitUsage || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: exit status %d, %s; want %q", wrong, got.code, got.stderr, want)
		}
	}
}
