package process

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"loadstone/lab/host/cgroup"
	"loadstone/lab/topology"
)

// config loads a Compose file for the driver. $DIR in it is a directory of the
// test's own.
func config(t *testing.T, compose string) setup {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "compose.yaml")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(compose, "$DIR", dir)), 0o644); err != nil {
		t.Fatal(err)
	}
	system, err := topology.Load(t.Context(), topology.Config{ComposeFiles: []string{path}})
	if err != nil {
		t.Fatal(err)
	}
	c := testConfig(system)
	c.LogDir, c.VolumeDir = filepath.Join(dir, "logs"), filepath.Join(dir, "volumes")
	return c
}

// up brings a system up and sees to it that Down leaves nothing.
func up(t *testing.T, c setup) *Running {
	t.Helper()
	r, err := bringUp(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { down(t, r) })
	return r
}

func down(t *testing.T, r *Running) {
	t.Helper()
	if err := r.Down(context.Background()); err != nil {
		t.Errorf("down: %v", err)
	}
	wantNothingLeft(t, os.Getpid(), r.name)
}

// withoutGroups makes the machine look as if it had no control groups.
func withoutGroups(t *testing.T, c setup) setup {
	t.Helper()
	c.SysRoot = t.TempDir()
	return c
}

// marked are the processes that carry the mark of a run of the lab with a pid.
func marked(lab int, run string) []int {
	want := "\x00LOADSTONE_RUN=loadstone-" + strconv.Itoa(lab) + "-"
	if run != "" {
		want = "\x00LOADSTONE_RUN=" + run + "\x00"
	}
	var pids []int
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && strings.Contains("\x00"+string(text), want) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// groupsOf are the control groups of a lab's runs, or of one run.
func groupsOf(lab int, run string) []string {
	tree, err := cgroup.Detect("/proc", "/")
	if err != nil {
		return nil
	}
	names, _ := tree.Names()
	return slices.DeleteFunc(names, func(name string) bool {
		if run != "" {
			return name != run
		}
		return !strings.HasPrefix(name, "loadstone-"+strconv.Itoa(lab)+"-")
	})
}

func wantNothingLeft(t *testing.T, lab int, run string) {
	t.Helper()
	eventually(t, "no process is left", func() bool { return len(marked(lab, run)) == 0 })
	eventually(t, "no control group is left", func() bool { return len(groupsOf(lab, run)) == 0 })
}

// eventually polls until ok, for at most two minutes.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	eventuallyIn(t, 2*time.Minute, what, ok)
}

func eventuallyIn(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !ok(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it does not come about that %s", what)
		}
	}
}

func lines(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Fields(strings.ReplaceAll(strings.ReplaceAll(string(text), " ", "_"), "\n", " "))
}

const shop = `
services:
  db:
    image: loadstone
    command: [serve, "${BIND_HOST:-0.0.0.0}:5432", $DIR/notes]
    environment: {NAME: db}
    healthcheck: {test: [CMD, loadstone, check, $DIR/notes], interval: 5s, retries: 24}
    volumes: [data:/data]
    ports: ["5432"]
    stop_signal: SIGINT
  seed:
    image: loadstone
    command: [exit, "0", "seeded ${DB_HOST:-db}", "note:$DIR/notes"]
    environment: {NAME: seed}
    depends_on: {db: {condition: service_healthy}}
  api:
    image: loadstone
    command: [serve, "${BIND_HOST:-0.0.0.0}:8080", $DIR/notes]
    environment: {NAME: api, DATABASE: "${DB_HOST:-db}:5432", DATA: "${DATA_VOLUME:-/data}"}
    ports: ["8080"]
    labels: {prometheus.io/port: "9100"}
    deploy: {replicas: 3}
    depends_on: {seed: {condition: service_completed_successfully}}
volumes: {data: {}}
`

func TestServicesStartInOrderAndStopInReverse(t *testing.T) {
	c := config(t, shop)
	r := up(t, c)
	notes := filepath.Join(c.System.Dir, "notes")
	wantStarts := []string{"start_db", "job_seed", "start_api", "start_api", "start_api"}
	eventually(t, "all have noted their start", func() bool { return len(lines(t, notes)) >= len(wantStarts) })
	if got := lines(t, notes); !slices.Equal(got, wantStarts) {
		t.Errorf("got %q, want %q", got, wantStarts)
	}

	instances := r.Instances()
	names, hosts := make([]string, 0, 4), make([]string, 0, 4)
	for _, in := range instances {
		names, hosts = append(names, in.Name), append(hosts, in.Host)
		if in.PID == 0 || in.StartedAt.IsZero() || in.ReadyAt.Before(in.StartedAt) {
			t.Errorf("incomplete: %+v", in)
		}
	}
	if want := []string{"db-1", "api-1", "api-2", "api-3"}; !slices.Equal(names, want) {
		t.Errorf("got instances %q, want %q", names, want)
	}
	slices.Sort(hosts)
	if len(slices.Compact(hosts)) != 4 {
		t.Errorf("got hosts %q, want 4 different ones", hosts)
	}
	api := instances[1]
	if api.Port != 8080 || api.Index != 1 || api.MetricsURL != "http://"+api.Host+":9100/metrics" || api.LimitCPUs != 0 || api.Enforced {
		t.Errorf("got %+v", api)
	}
	wantEnvironment(t, c, instances)

	down(t, r)
	want := slices.Concat(wantStarts, []string{"stop_api_terminated", "stop_api_terminated", "stop_api_terminated", "stop_db_interrupt"})
	if got := lines(t, notes); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if err, open := <-r.Failed(); open {
		t.Errorf("got failure %v from a clean run", err)
	}
	if err := r.Down(t.Context()); err != nil {
		t.Errorf("second Down: %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(c.LogDir, "seed-1.log")); err != nil || string(text) != "seeded "+instances[0].Host+"\n" {
		t.Errorf("got log %q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(c.LogDir, "guardian.log")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the guardian had something to say: %v", err)
	}
}

// wantEnvironment checks what every api instance sees: all of it.
func wantEnvironment(t *testing.T, c setup, instances []topology.Instance) {
	t.Helper()
	hosts := make([]string, 0, 3)
	for _, in := range instances[1:] {
		hosts = append(hosts, in.Host)
	}
	for _, in := range instances[1:] {
		res, err := http.Get("http://" + in.Host + ":8080/env")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		err = json.NewDecoder(res.Body).Decode(&got)
		_ = res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		got = slices.DeleteFunc(got, func(s string) bool {
			return strings.HasPrefix(s, "LOADSTONE_RUN=loadstone-") || strings.HasPrefix(s, "PATH=/")
		})
		slices.Sort(got)
		want := []string{
			"API_HOST=" + hosts[0], "API_HOSTS=" + strings.Join(hosts, ","), "BIND_HOST=" + in.Host,
			"DATA=" + c.VolumeDir + "/data", "DATABASE=" + instances[0].Host + ":5432", "DATA_VOLUME=" + c.VolumeDir + "/data",
			"DB_HOST=" + instances[0].Host, "DB_HOSTS=" + instances[0].Host, "HOME=/nonexistent", "NAME=api",
			"SEED_HOST=" + strings.TrimSuffix(instances[0].Host, "1") + "2", "SEED_HOSTS=" + strings.TrimSuffix(instances[0].Host, "1") + "2",
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got  %q\nwant %q", in.Name, got, want)
		}
	}
}

func TestRunsAtTheSameTimeDoNotCollide(t *testing.T) {
	const one = `services: {api: {image: loadstone, command: [serve, "${BIND_HOST:-0.0.0.0}:8080"], expose: ["8080"]}}`
	a := up(t, config(t, one))
	b := up(t, config(t, one))
	if a.Instances()[0].Host == b.Instances()[0].Host || a.name == b.name {
		t.Errorf("both runs are at %s, called %s and %s", a.Instances()[0].Host, a.name, b.name)
	}
	down(t, a)
	if res, err := http.Get("http://" + b.Instances()[0].Host + ":8080/env"); err != nil {
		t.Errorf("the end of one run ended the other: %v", err)
	} else {
		_ = res.Body.Close()
	}
}

func TestVolumesStay(t *testing.T) {
	c := config(t, `
services:
  seed: {image: loadstone, command: [exit, "0", "note:${DATA_VOLUME:-/data}/seeded"], volumes: [data:/data]}
  api: {image: loadstone, command: [sleep], depends_on: {seed: {condition: service_completed_successfully}}}
volumes: {data: {}}
`)
	for trial := 1; trial <= 2; trial++ {
		r := up(t, c)
		down(t, r)
		if got := lines(t, filepath.Join(c.VolumeDir, "data", "seeded")); len(got) != trial {
			t.Errorf("after trial %d: got %q, want %d lines", trial, got, trial)
		}
	}
}
