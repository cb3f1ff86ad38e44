package drivertest

import (
	"context"
	"errors"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"loadstone/lab/driver"
	"loadstone/lab/host"
	"loadstone/lab/host/cgroup"
	"loadstone/lab/topology"
)

const shop = `
services:
  db:
    image: $IMAGE
    command: [serve, "${BIND_HOST:-0.0.0.0}:5432", $DIR/shared/notes]
    environment: {NAME: db}
    healthcheck: {test: [CMD, loadstone, check, $DIR/shared/notes], interval: 5s, retries: 24, start_interval: 50ms}
    volumes: ["$DIR/shared:$DIR/shared"]
    ports: ["5432"]
    stop_signal: SIGINT
  seed:
    image: $IMAGE
    command: [exit, "0", "it costs $$5", "note:$DIR/shared/notes"]
    environment: {NAME: seed}
    volumes: ["$DIR/shared:$DIR/shared"]
    depends_on: {db: {condition: service_healthy}}
  api:
    image: $IMAGE
    command: [serve, "${BIND_HOST:-0.0.0.0}:8080", $DIR/shared/notes]
    environment: {NAME: api, PEER: "${DB_HOST:-db}:5432", DATA: "a $$ b"}
    volumes: ["$DIR/shared:$DIR/shared"]
    ports: ["8080"]
    labels: {prometheus.io/port: "9100"}
    deploy: {replicas: 3}
    depends_on: {seed: {condition: service_completed_successfully}}
`

func (s suite) order(t *testing.T) {
	dir := place(t)
	compose, stopped := shop, "stop db interrupt"
	if s.Cluster {
		compose, stopped = strings.Replace(shop, "    stop_signal: SIGINT\n", "", 1), "stop db terminated"
	}
	r := s.up(t, dir, compose)
	notes := filepath.Join(dir, "shared", "notes")
	starts := []string{"start db", "job seed", "start api", "start api", "start api"}
	wantLines(t, notes, starts)
	wantInstances(t, r)
	s.down(t, r)
	want := slices.Concat(starts, []string{"stop api terminated", "stop api terminated", "stop api terminated", stopped})
	if got := lines(t, notes); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if err, open := <-r.Failed(); open {
		t.Errorf("got failure %v from a clean run", err)
	}
	if err := r.Down(t.Context()); err != nil {
		t.Errorf("second Down: %v", err)
	}
	if w := r.Warnings(); len(w) > 0 {
		t.Errorf("got warnings %q from a clean run", w)
	}
	if got := lines(t, filepath.Join(dir, "logs", "seed-1.log")); !slices.Equal(got, []string{"it costs $5"}) {
		t.Errorf("got log %q of seed-1", got)
	}
	if said := lines(t, filepath.Join(dir, "logs", "guardian.log")); len(said) > 0 {
		t.Errorf("the guardian said %q", said)
	}
}

func wantInstances(t *testing.T, r driver.Running) {
	t.Helper()
	instances := r.Instances()
	names, hosts := make([]string, 0, 4), map[string]bool{}
	for _, in := range instances {
		names = append(names, in.Name)
		hosts[in.Host] = true
		if in.PID == 0 || in.StartedAt.IsZero() || in.ReadyAt.Before(in.StartedAt) {
			t.Errorf("incomplete: %+v", in)
		}
		if in.Service != "api" {
			continue
		}
		if in.Port != 8080 || in.MetricsURL != "http://"+in.Host+":9100/metrics" || in.LimitCPUs != 0 || in.Enforced {
			t.Errorf("got %+v", in)
		}
		if status, text := get(t, in, "/reach"); status != http.StatusOK || text != "a $ b" {
			t.Errorf("%s does not reach db: %d, %s", in.Name, status, text)
		}
	}
	if want := []string{"db-1", "api-1", "api-2", "api-3"}; !slices.Equal(names, want) || len(hosts) != 4 {
		t.Errorf("got instances %q on hosts %v, want %q on 4 different ones", names, hosts, want)
	}
}

// get asks an instance. The status is 0 if there was no answer.
func get(t *testing.T, in topology.Instance, path string) (status int, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+net.JoinHostPort(in.Host, strconv.Itoa(in.Port))+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	body := make([]byte, 1000)
	n, _ := res.Body.Read(body) // texts are short
	_ = res.Body.Close()
	return res.StatusCode, string(body[:n])
}

func (s suite) volumes(t *testing.T) {
	dir := place(t)
	const compose = `
services:
  seed: {image: $IMAGE, command: [count, "${DATA_VOLUME:-/data}/runs", $DIR/shared/notes], volumes: ["data:/data", "$DIR/shared:$DIR/shared"]}
  api: {image: $IMAGE, command: [sleep], depends_on: {seed: {condition: service_completed_successfully}}}
volumes: {data: {}}
`
	for range 2 {
		s.down(t, s.up(t, dir, compose))
	}
	want := []string{"run 1", "run 2"}
	if s.Cluster {
		want[1] = "run 1"
	}
	if got := lines(t, filepath.Join(dir, "shared", "notes")); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func (s suite) needLimits(t *testing.T) {
	t.Helper()
	if !s.Limits {
		t.Skip("limits cannot be set here")
	}
}

func (s suite) cpu(t *testing.T) {
	s.needLimits(t)
	r := s.up(t, place(t), `
services:
  api: {image: $IMAGE, command: [spin], deploy: {resources: {limits: {cpus: "0.25", memory: 64M}}}}
  free: {image: $IMAGE, command: [sleep]}
`)
	api := r.Instances()[0]
	if api.LimitCPUs != 0.25 || !api.Enforced || len(r.Warnings()) > 0 || len(r.Hosts()) != 1 {
		t.Fatalf("got %+v, hosts %v, warnings %q", api, r.Hosts(), r.Warnings())
	}
	poll(t, func() bool { // it may be on its way into the group
		share, err := shareOf(api.PID)
		return err == nil && share != nil && share.Cores == 0.25
	}, func() { t.Error("its control group has no share of 0.25 cores") })
	wantShare(t, r, 0.25)
	machine := r.Hosts()[0]
	for _, factor := range []float64{0.4, 1} {
		if err := machine.Limit(t.Context(), "api-1", factor); err != nil {
			t.Fatal(err)
		}
		if share, err := shareOf(api.PID); err != nil || math.Abs(share.Cores-factor*0.25) > 1e-3 {
			t.Errorf("%g of its CPU: got a share of %+v, %v", factor, share, err)
		}
		if used := usedIn(t, r, time.Second).CPU.Seconds(); used > 1.3*factor*0.25 {
			t.Errorf("%g of its CPU: got %.3f cores", factor, used)
		}
	}
	if err := machine.Limit(t.Context(), "free-1", 0.5); err != nil {
		t.Errorf("slow down what has no limit: %v", err)
	}
	if err := machine.Limit(t.Context(), "nobody-1", 1); !errors.Is(err, host.ErrUnsupported) {
		t.Errorf("limit nobody: got %v", err)
	}
}

// shareOf is the CPU share of the control group that a process is in.
func shareOf(pid int) (*cgroup.CPU, error) {
	group, err := cgroup.Of("/proc", "/", pid)
	if err != nil {
		return nil, err
	}
	share, err := group.CPU()
	return share, errors.Join(err, group.Close())
}

// wantShare wants api-1 to use a share of the CPU, within 20 %: more than that
// never, and less only while others have the machine.
func wantShare(t *testing.T, r driver.Running, cores float64) {
	t.Helper()
	var used float64
	pollFor(t, 10*time.Minute, func() bool {
		u := usedIn(t, r, time.Second)
		used = u.CPU.Seconds()
		return used >= 0.8*cores && u.Throttled > 0
	}, func() { t.Errorf("got %.3f cores, want %g within 20 %%, and throttled periods", used, cores) })
	if used > 1.2*cores {
		t.Errorf("got %.3f cores, want %g within 20 %%", used, cores)
	}
}

// usedIn is what the first instance used in a second, as its machine tells.
func usedIn(t *testing.T, r driver.Running, d time.Duration) host.Instance {
	t.Helper()
	var samples []*host.Sample
	enough := errors.New("two samples")
	err := r.Hosts()[0].Watch(t.Context(), d, func(s *host.Sample) error {
		if samples = append(samples, s); len(samples) == 2 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
	seconds := time.Since(samples[0].At).Seconds() // so that the use is never above the truth
	before, after := samples[0].Instances[0], samples[1].Instances[0]
	after.CPU = time.Duration(float64(after.CPU-before.CPU) / seconds)
	after.Throttled -= before.Throttled
	return after
}

// failure is that of an instance that ends while it should run; nil if nobody notices any.
func failure(r driver.Running) error {
	select {
	case err := <-r.Failed():
		return err
	case <-time.After(2 * time.Minute):
		return nil
	}
}

// memory fills the memory only when the instance is up: of a container that uses its memory up
// within milliseconds of its start, containerd does not learn why it ended.
func (s suite) memory(t *testing.T) {
	s.needLimits(t)
	dir := place(t)
	r := s.up(t, dir, `
services:
  api:
    image: $IMAGE
    command: [fill, $DIR/shared/now]
    volumes: ["$DIR/shared:$DIR/shared"]
    deploy: {resources: {limits: {memory: 32M}}}
`)
	if err := os.WriteFile(filepath.Join(dir, "shared", "now"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := failure(r)
	if want := "api-1 was killed by SIGKILL, because it had used up its memory limit of 32 MiB"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

func (s suite) crash(t *testing.T) {
	dir := place(t)
	r := s.up(t, dir, `
services:
  api:
    image: $IMAGE
    command: [serve, "${BIND_HOST:-0.0.0.0}:8080", $DIR/shared/notes]
    volumes: ["$DIR/shared:$DIR/shared"]
    expose: ["8080"]
    restart: always
    deploy: {replicas: 2}
`)
	get(t, r.Instances()[1], "/crash")
	err := failure(r)
	want := "api-2 exited with status 7 while it should run"
	if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "about to crash") {
		t.Errorf("got %v, want %q and its last words", err, want)
	}
	s.down(t, r)
	if err, more := <-r.Failed(); more {
		t.Errorf("got a second report: %v", err)
	}
	if got := lines(t, filepath.Join(dir, "shared", "notes")); len(got) != 3 { // two starts, one stop
		t.Errorf("got %q, want two starts and one stop", got)
	}
}

func (s suite) deaf(t *testing.T) {
	// A second is the shortest grace that all drivers know.
	dir := place(t)
	r := s.up(t, dir, `
services:
  api:
    image: $IMAGE
    command: [deaf, $DIR/shared/notes]
    volumes: ["$DIR/shared:$DIR/shared"]
    stop_grace_period: 1s
`)
	poll(t, func() bool { return len(lines(t, filepath.Join(dir, "shared", "notes"))) > 0 }, func() { t.Error("it does not start") })
	s.down(t, r)
	if w := r.Warnings(); len(w) != 1 || !strings.HasPrefix(w[0], "api-1 did not end within 1s of ") || !strings.HasSuffix(w[0], " and was killed") {
		t.Errorf("got warnings %q, want one of api-1 killed", w)
	}
}

func (s suite) reasons(t *testing.T) {
	f := func(name, compose string, want ...string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			dir := place(t)
			r, err := s.Up(t.Context(), s.load(t, dir, compose), dir)
			if err == nil {
				s.down(t, r)
				t.Fatal("got no error")
			}
			for _, w := range want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("got %q\nwant %q in it", err, w)
				}
			}
			s.wantNothingLeft(t, os.Getpid())
		})
	}
	f("seeder", `
services:
  seed: {image: $IMAGE, command: [exit, "3", connecting, "cannot open the table"]}
  api: {image: $IMAGE, command: [sleep], depends_on: {seed: {condition: service_completed_successfully}}}
`, "seed-1 exited with status 3", "cannot open the table", "seed-1.log")
	f("never healthy", `
services:
  other: {image: $IMAGE, command: [sleep]}
  api:
    image: $IMAGE
    command: [sleep]
    healthcheck: {test: [CMD, loadstone, check, /never], interval: 100ms, retries: 10}
`, "api-1 is not healthy after 1s", "not yet: stat", "exit status 1", "api-1.log")
	f("ends while it starts", `
services:
  db: {image: $IMAGE, command: [exit, "0", "port is taken"], healthcheck: {test: [CMD, loadstone, check, /never]}}
  api: {image: $IMAGE, command: [sleep], depends_on: {db: {condition: service_healthy}}}
`, "db-1 exited with status 0 while it should run", "service_completed_successfully", "port is taken")
}

func (s suite) cancelled(t *testing.T) {
	dir := place(t)
	system := s.load(t, dir, `
services:
  seed:
    image: $IMAGE
    command: [serve, "${BIND_HOST:-0.0.0.0}:8080", $DIR/shared/notes]
    environment: {NAME: seed}
    volumes: ["$DIR/shared:$DIR/shared"]
  api: {image: $IMAGE, command: [sleep], depends_on: {seed: {condition: service_completed_successfully}}}
`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := s.Up(ctx, system, dir)
		done <- err
	}()
	poll(t, func() bool { return len(lines(t, filepath.Join(dir, "shared", "notes"))) > 0 }, func() { t.Error("the seeder does not start") })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	s.wantNothingLeft(t, os.Getpid())
}

func (s suite) killed(t *testing.T) {
	dir := place(t)
	lab := s.startLab(t, s.file(t, dir, `services: {api: {image: $IMAGE, command: [sleep], deploy: {replicas: 2}}}`), dir)
	pid := lab.Process.Pid
	if len(s.Left(t, pid)) == 0 {
		t.Error("nothing is seen of a lab that is up")
	}
	if err := lab.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = lab.Wait() // killed
	s.wantNothingLeft(t, pid)
}
