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
	"slices"
	"strings"
	"testing"
	"time"

	"loadstone/lab/result"
)

// withDocker runs the program in dir with a Docker daemon that has its image, in a
// network name space without a way out: load goes to containers' own addresses.
func withDocker(t *testing.T, dir string, args ...string) ended {
	t.Helper()
	needDocker(t)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	image := t.TempDir()
	err = errors.Join(
		os.CopyFS(filepath.Join(image, "deploy", "data"), os.DirFS(filepath.Join(root, "deploy", "data"))),
		os.Mkdir(filepath.Join(image, "bin"), 0o755), os.Link(program, filepath.Join(image, "bin", "loadstone")),
	)
	if err != nil {
		t.Fatal(err)
	}
	const script = `docker build --quiet --tag loadstone --target prebuilt --file "$1" "$2" >"$2.log" 2>&1 || { cat "$2.log"; exit 124; }; shift 2; exec "$@"`
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	argv := append([]string{"sh", "-c", script, "sh", filepath.Join(root, "deploy", "Dockerfile"), image, program}, args...)
	cmd := exec.CommandContext(ctx, filepath.Join(root, "scripts", "with-docker"), argv...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	cmd.Dir = dir
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok || exit != nil && (exit.ExitCode() == 124 || exit.ExitCode() == 125) {
		t.Fatalf("loadstone %s: %v: %s%s", strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return ended{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

func needDocker(t *testing.T) {
	t.Helper()
	lacking := ""
	if os.Geteuid() != 0 {
		lacking = "only root can start a Docker daemon"
	}
	for _, tool := range []string{"dockerd", "docker", "unshare", "ip"} {
		if _, err := exec.LookPath(tool); err != nil {
			lacking = tool + " is not installed"
		}
	}
	switch {
	case lacking == "":
	case os.Getenv("CI") == "true":
		t.Fatal(lacking)
	default:
		t.Skip(lacking)
	}
}

// planted writes an experiment on a front and a store, which limits it: it sustains 150
// requests a second, and the front more than a thousand.
func planted(t *testing.T, dir, rest string) string {
	t.Helper()
	const service = `
  %s:
    image: loadstone
    command: [internal, plant, '{"listen":"${BIND_HOST:-0.0.0.0}:8080","admin":"${BIND_HOST:-0.0.0.0}:9100",%s}']
    expose: ["8080"]
    labels: {prometheus.io/port: "9100"}
    depends_on: [%s]
    deploy: {resources: {limits: {cpus: "%g"}}}
`
	compose := "name: planted\nservices:\n" +
		fmt.Sprintf(service, "front", `"cpu_ms":0.2,"workers":4,"calls":[{"hosts":"${STORE_HOSTS:-store}","port":8080,"visits":1}]`, "store", 0.5) +
		fmt.Sprintf(service, "store", `"cpu_ms":1,"workers":4`, "", 0.15)
	text := `name: planted
system: compose.yaml
entry: front
variants: {one: {}}
trials: 1
` + rest
	path := filepath.Join(dir, "planted.yaml")
	for file, text := range map[string]string{path: text, filepath.Join(dir, "compose.yaml"): compose} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// TestRunNamesWhatIsPlantedInContainers measures again if nothing was named. That is no
// mistake if the report says that something else used the machine, even to the last.
func TestRunNamesWhatIsPlantedInContainers(t *testing.T) {
	const rest = `
load: {scenarios: {lookup: {executor: constant-arrival-rate, request: GET /}}}
slo: {http_req_duration: [p(95)<1000], http_req_failed: [rate<0.01]}
measure: capacity
search: {budget: 8s}
perturb: {budget: 20s}
`
	for left := 3; ; left-- {
		dir := t.TempDir()
		got := withDocker(t, dir, "run", planted(t, dir, rest), "--driver", "docker")
		if got.code != exitOK && got.code != exitCrossed {
			t.Fatalf("exit status %d\n%s\n%s", got.code, got.stdout, got.stderr)
		}
		res := derivedResult(t, onlyRun(t, dir))
		if e := res.Environment; e.Driver != "docker" || !e.LimitsEnforced || e.CgroupVersion == 0 {
			t.Errorf("got environment %+v", e)
		}
		v := res.Variants[0]
		for _, c := range v.Components { // none where no rate held
			if c.LimitCPUs <= 0 || c.DemandMS <= 0 {
				t.Errorf("of %s nothing is known: %+v", c.Name, c)
			}
		}
		// Other tests' processes run beside this one: the lab notices, and names nobody.
		busy := strings.Contains(got.stdout, "something other than this run used") ||
			strings.Contains(v.Verdict.Summary, "the load generator sent") || strings.Contains(v.Verdict.Summary, "the machine was full")
		perturbed := v.Perturbation != nil && varies(v.Perturbation, "store cpu")
		t.Logf("%s: %s, perturbed: %v", v.Verdict.Status, v.Verdict.Summary, perturbed)
		switch named := v.Verdict.Component; {
		case named == "store" && perturbed, left == 1 && busy && (named == "" || named == "store"):
			return
		case named != "" && named != "store", left == 1:
			t.Fatalf("got verdict %+v, perturbation %+v\n%s", v.Verdict, v.Perturbation, got.stdout)
		}
	}
}

// varies reports that a target was made smaller or larger and had an effect estimated.
func varies(p *result.Perturbation, target string) bool {
	changed := slices.ContainsFunc(p.Slots, func(s result.PerturbedSlot) bool { return slices.Contains(s.Targets, target) && s.Factor != 1 })
	return changed && slices.ContainsFunc(p.Effects, func(e result.PerturbedEffect) bool { return slices.Contains(e.Targets, target) })
}

func TestFaultsOfARunInContainers(t *testing.T) {
	const rest = `
load:
  warmup: 1s
  scenarios:
    lookup: {executor: constant-arrival-rate, rate: 20/s, duration: 55s, request: GET /}
slo: {http_req_failed: [rate<0.001]}
# A busy machine takes many seconds to start a container anew.
faults: [{at: 3s, kill: store, for: 5s}, {at: 33s, pause: front, for: 500ms}, {at: 45s, exec: [loadstone, version], service: front}]
measure: load
`
	var dir string
	var got ended
	for range 3 { // or even more than it is given here
		dir = t.TempDir()
		if got = withDocker(t, dir, "run", planted(t, dir, rest), "--driver", "docker"); !strings.Contains(got.stderr, "could begin") {
			break
		}
	}
	if got.code != exitCrossed {
		t.Fatalf("exit status %d, want %d: a killed store fails requests\n%s\n%s", got.code, exitCrossed, got.stdout, got.stderr)
	}
	v := derivedResult(t, onlyRun(t, dir)).Variants[0]
	if len(v.Faults) != 3 {
		t.Fatalf("got %d faults\n%s", len(v.Faults), got.stdout)
	}
	kill, pause, command := v.Faults[0], v.Faults[1], v.Faults[2]
	if kill.Failed == 0 || kill.Back == nil || *kill.Back < 5 || pause.Back == nil || *pause.Back < 0.5 || command.Back == nil {
		text, _ := json.Marshal(v.Faults)
		t.Errorf("got %s", text)
	}
}

func TestMistakesAboutTheDriverAreFoundBeforeAnythingStarts(t *testing.T) {
	dir := t.TempDir()
	path := planted(t, dir, `
load: {scenarios: {lookup: {executor: constant-arrival-rate, rate: 20/s, duration: 5s, request: GET /}}}
slo: {http_req_failed: [rate<0.001]}
measure: load
`)
	f := func(want string, args ...string) {
		t.Helper()
		got := loadstone(t, dir, append([]string{"run", path}, args...)...)
		if got.code != exitUsage || !strings.HasPrefix(got.stderr, "loadstone: ") || !strings.Contains(got.stderr, want) || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("%q: exit status %d, want %d and one sentence with %q\n%s", args, got.code, exitUsage, want, got.stderr)
		}
		if _, err := os.Stat(filepath.Join(dir, "runs")); err == nil {
			t.Error("a run was begun")
		}
	}
	f(`did you mean "docker"?`, "--driver", "dokcer")
	t.Setenv("DOCKER_HOST", "unix:///no/such/socket")
	if _, err := exec.LookPath("docker"); err == nil {
		f("the Docker daemon does not answer at unix:///no/such/socket; start it", "--driver", "docker")
		for _, host := range []string{"ssh://somebody@198.51.100.1", "tcp://198.51.100.1:2376"} { // which is not asked
			t.Setenv("DOCKER_HOST", host)
			f("the Docker daemon is on another machine, "+host+", where alone", "--driver", "docker")
		}
	}
	t.Setenv("PATH", t.TempDir())
	f("docker is not installed; install it", "--driver", "docker")
}
