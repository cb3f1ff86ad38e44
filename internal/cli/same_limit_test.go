package cli

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"loadstone/block/servertest"
	"loadstone/lab/verdict"
)

// verdicts runs an experiment of a site, and returns what each variant's verdict is.
func (s *site) verdicts(experiment string, args ...string) map[string]verdict.Verdict {
	s.t.Helper()
	runs := filepath.Join(s.t.TempDir(), "runs")
	got := s.run(append([]string{"run", experiment, "--runs", runs}, args...)...)
	if got.code != exitOK && got.code != exitCrossed {
		s.t.Fatalf("%s %s: exit status %d\n%s\n%s", experiment, strings.Join(args, " "), got.code, got.stdout, got.stderr)
	}
	all := map[string]verdict.Verdict{}
	for _, v := range derivedResult(s.t, onlyRun(s.t, filepath.Dir(runs))).Variants {
		all[v.Name] = v.Verdict
	}
	return all
}

// wantLimit wants a verdict to be that the CPU of a component limits, and no method that names
// resources to name anything else. Beside others that fill the machine a capacity is a lower bound only, and nothing is
// named: these tests have it to themselves.
func wantLimit(t *testing.T, how string, v verdict.Verdict, component string) {
	t.Helper()
	t.Logf("%s: %s", how, v.Summary)
	if v.Status != verdict.Named || v.Component != component || v.Resource != "cpu" {
		t.Errorf("%s: %s: %s %s, want the CPU of %s", how, v.Status, v.Component, v.Resource, component)
	}
	for _, w := range v.Witnesses {
		if w.Name != verdict.Waiting && w.Component != "" && w.Component != component { // requests may wait in front of it
			t.Errorf("%s: %s names %s %s, want %s", how, w.Name, w.Component, w.Resource, component)
		}
	}
}

// limitsOfResults give each component of results a share that it cannot use up.
const limitsOfResults = `
services:
  postgres: {deploy: {resources: {limits: {cpus: "0.4"}}}}
  redis: {deploy: {resources: {limits: {cpus: "0.3"}}}}
  api:
    environment: {RESULTS_ACCESS: open, RESULTS_LIMITS: "off", RESULTS_PAGE: "off"}
    deploy: {replicas: 1, resources: {limits: {cpus: "0.4"}}}
  lb:
    environment: {RESULTS_LIMITS: "off", RESULTS_TLS: "off"}
    deploy: {resources: {limits: {cpus: "0.4"}}}
`

// whereResultsLimits are the variants, each called after what limits it: a share so small that
// it does beside the others, and large enough for a program that has just been started to hold
// some rate, as what runs already does.
const whereResultsLimits = `
  api: {services: {api: {deploy: {resources: {limits: {cpus: "0.05"}}}}}}
  postgres: {services: {api: {environment: {RESULTS_CACHE: none}}, postgres: {deploy: {resources: {limits: {cpus: "0.05"}}}}}}
  lb: {services: {lb: {deploy: {resources: {limits: {cpus: "0.05"}}}}}}
`

// loadOfLookups is the rest of an experiment.
const loadOfLookups = `
load:
  warmup: 5s
  scenarios:
    lookup:
      executor: constant-arrival-rate
      preAllocatedVUs: 32
      maxVUs: 32
      request: GET PATH
      feed: {id: {uniform: [1, 300]}}
slo:
  http_req_duration: [p(95)<200]
  http_req_failed: [rate<0.001]
measure: capacity
trials: 1
search: {budget: 20s}
perturb: {budget: 20s}
`

// TestAnAttachedSystemHasTheSameLimit measures the full results system three times as it is
// started for a trial, and three times as it runs already, started by somebody else: the same
// component is named.
func TestAnAttachedSystemHasTheSameLimit(t *testing.T) {
	servertest.Large(t)
	compose, err := filepath.Abs("../../system/results/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, limitsOfResults)
	if err := os.Chmod(filepath.Dir(s.dir), 0o755); err != nil { // PostgreSQL's user has to get there
		t.Fatal(err)
	}
	rest := strings.ReplaceAll(loadOfLookups, "PATH", "/student/{id}")
	s.write("experiment.yaml", "name: started\nquestion: What limits results?\nsystem: ["+compose+", compose.yaml]\nentry: lb\nvariants:"+whereResultsLimits+rest)
	s.write("attached.yaml", "name: attached\nquestion: What limits results?\nsystem: there.yaml\nentry: lb\nvariants: {as-is: {}}"+rest)
	started := s.verdicts("experiment.yaml")
	for _, limit := range []string{"api", "postgres", "lb"} {
		wantLimit(t, "started "+limit, started[limit], limit)
		s.want(exitOK, "", "up", "experiment.yaml", limit, "--detach", "-p", limit)
		record, ok := s.record(limit)
		if !ok {
			t.Fatalf("%s is not up", limit)
		}
		var there strings.Builder
		there.WriteString("services:\n")
		for _, service := range record.Services {
			port := map[string]string{"postgres": "5432", "redis": "6379", "api": "8080", "lb": "8080"}[service.Name]
			if port == "" {
				continue // a job
			}
			for i, address := range service.Addresses {
				if _, _, err := net.SplitHostPort(address); err != nil {
					service.Addresses[i] = net.JoinHostPort(address, port)
				}
			}
			fmt.Fprintf(&there, "  %s: {x-addresses: [%s]}\n", service.Name, strings.Join(service.Addresses, ", "))
		}
		s.write("there.yaml", there.String())
		attached := s.verdicts("attached.yaml", "--driver", "attach", "--may-limit", "api,postgres,redis,lb")["as-is"]
		wantLimit(t, "attached "+limit, attached, limit)
		s.want(exitOK, "", "down", limit, "--volumes")
	}
}

// write writes a file of the site.
func (s *site) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// Two programs that know nothing of Loadstone: the one listens on a port of every address, the
// other calls it by a name. Told by variables, they are as those that are written for it.
const (
	logsProgram = `package main

import (
	"fmt"
	"net/http"
	"os"
)

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		sum := uint64(1)
		for i := range uint64(1000000) {
			sum = sum*6364136223846793005 + i
		}
		fmt.Fprintln(w, "log entry", sum)
	})
	if err := http.ListenAndServe(os.Getenv("BIND")+":8890", nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
`
	webProgram = `package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
)

func main() {
	names, turn := []string{"logs"}, atomic.Uint64{}
	if told := os.Getenv("LOGS"); told != "" {
		names = strings.Split(told, ",")
	}
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		answer, err := http.Get("http://" + names[turn.Add(1)%uint64(len(names))] + ":8890/")
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer answer.Body.Close()
		io.Copy(w, answer.Body)
	})
	if err := http.ListenAndServe(os.Getenv("BIND")+":8080", nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
`
)

// TestProgramsAsTheyAreHaveTheSameLimit has the two programs named as what limits alike,
// whether they are told addresses or run as they are, in one instance and in three.
func TestProgramsAsTheyAreHaveTheSameLimit(t *testing.T) {
	servertest.Large(t)
	if os.Geteuid() != 0 {
		servertest.Missing(t, "only root can give programs networks of their own")
	}
	s := newSite(t, `
services:
  logs: {x-process: [./logs], ports: ["8890"], deploy: {resources: {limits: {cpus: "0.1"}}}}
  web: {x-process: [./web], ports: ["8080"], depends_on: [logs], deploy: {resources: {limits: {cpus: "0.5"}}}}
`)
	for name, text := range map[string]string{"logs": logsProgram, "web": webProgram} {
		s.write(name+".go", text)
		build := exec.Command("go", "build", "-o", name, name+".go")
		build.Dir, build.Env = s.dir, append(os.Environ(), "CGO_ENABLED=0", "GO111MODULE=off")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, out)
		}
	}
	rest := strings.ReplaceAll(loadOfLookups, "PATH", "/{id}")
	const question = "name: programs\nquestion: What limits programs?\nentry: web\n"
	const variants = `variants:
  one: {}
  three: {services: {logs: {deploy: {replicas: 3}}}}
  web: {services: {logs: {deploy: {replicas: 3, resources: {limits: {cpus: "0.4"}}}}, web: {deploy: {resources: {limits: {cpus: "0.04"}}}}}}
`
	s.write("as-they-are.yaml", question+"system: compose.yaml\n"+variants+rest)
	s.write("told.compose.yaml", `
services:
  logs: {environment: {BIND: "${BIND_HOST:-}"}}
  web: {environment: {BIND: "${BIND_HOST:-}", LOGS: "${LOGS_HOSTS:-logs}"}}
`)
	s.write("told.yaml", question+"system: [compose.yaml, told.compose.yaml]\n"+variants+rest)
	limits := map[string]string{"one": "logs", "three": "logs", "web": "web"}
	for _, experiment := range []string{"told.yaml", "as-they-are.yaml"} {
		all := s.verdicts(experiment)
		for variant, limit := range limits {
			wantLimit(t, experiment+" "+variant, all[variant], limit)
		}
	}
}
