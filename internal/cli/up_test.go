package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"loadstone/internal/project"
	"loadstone/lab/driver"
	"loadstone/lab/driver/publish"
	"loadstone/lab/topology"
)

// idle is a system that does nothing: each instance of a service writes its pid.
const idle = `
name: shop
services:
  prepare: {x-process: [sh, -c, "exit 0"]}
  web:
    x-process: [sh, -c, "echo $$$$ > $DIR/web.pid.new && mv $DIR/web.pid.new $DIR/web.pid && exec sleep 1000"]
    depends_on: {prepare: {condition: service_completed_successfully}}
    RESTART
  charts: {image: nobody/knows-this, x-optional: true, ports: ["PORT:80"]}
`

// site is a directory with a system and its own state.
type site struct {
	t       *testing.T
	dir     string
	compose string
	env     []string
}

func newSite(t *testing.T, compose string, edit ...string) *site {
	t.Helper()
	dir := t.TempDir()
	s := &site{t: t, dir: dir, compose: filepath.Join(dir, "compose.yaml")}
	text := strings.NewReplacer(append(edit, "$DIR", dir, "RESTART", "", "PORT", "0")...).Replace(compose)
	if err := os.WriteFile(s.compose, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	s.env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(dir, "state"), "XDG_CACHE_HOME="+filepath.Join(dir, "cache"), "RESULTS_STUDENTS=300")
	t.Cleanup(func() { s.run("down", "--all") })
	return s
}

func (s *site) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), program, args...)
	cmd.Dir, cmd.Env = s.dir, s.env
	return cmd
}

func (s *site) run(args ...string) ended {
	s.t.Helper()
	cmd := s.command(args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	kill := time.AfterFunc(5*time.Minute, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	err := cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		s.t.Fatalf("loadstone %s: %v", strings.Join(args, " "), err)
	}
	return ended{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// want runs a command and checks its status and that its output has a text.
func (s *site) want(code int, text string, args ...string) string {
	s.t.Helper()
	got := s.run(args...)
	out := got.stdout + got.stderr
	if got.code != code || !strings.Contains(out, text) {
		s.t.Errorf("loadstone %s: got status %d and %q, want %d and %q", strings.Join(args, " "), got.code, out, code, text)
	}
	return out
}

func (s *site) record(name string) (project.Record, bool) {
	s.t.Helper()
	r, ok, err := project.Store{Dir: filepath.Join(s.dir, "state/loadstone/up")}.Find(name)
	if err != nil {
		s.t.Fatal(err)
	}
	return r, ok
}

// started waits for a process of the service web that is not one of before.
func (s *site) started(before ...int) int {
	s.t.Helper()
	var pid int
	eventually(s.t, "the service web runs", func() bool {
		pid = s.web()
		return pid > 1 && !slices.Contains(before, pid) && !gone(pid)
	})
	return pid
}

// web is the pid that the service web has written last; 0 if none.
func (s *site) web() int {
	text, err := os.ReadFile(filepath.Join(s.dir, "web.pid"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return pid
}

func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// text is output that is read while it is written.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *text) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *text) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// foreground starts `up` and returns when the system is up.
func (s *site) foreground(args ...string) (cmd *exec.Cmd, out *text) {
	s.t.Helper()
	cmd, out = s.command(append([]string{"up"}, args...)...), &text{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = cmd.Process.Kill() })
	eventually(s.t, "up", func() bool { return strings.Contains(out.String(), "is up (") })
	return cmd, out
}

func TestUpInTheForegroundUntilInterrupted(t *testing.T) {
	t.Parallel()
	s := newSite(t, idle)
	cmd, out := s.foreground(s.compose)
	for _, want := range []string{"prepare            ready after", "web                ready after", "charts is optional and left out", "stop it with Ctrl-C"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got %q, want %q in it", out, want)
		}
	}
	s.want(0, "shop   up", "ps")
	s.want(0, "shop is already running", "up", s.compose)
	s.want(0, "shop is already running", "up", s.compose, "--detach")
	other := newSite(t, idle)
	other.env = s.env
	other.want(1, "a system called shop is already running, but it is `"+s.compose+"`", "up", other.compose)
	other.want(1, "--project-name", "up", other.compose, "-d")

	pid := s.started()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after Ctrl-C: %v, want status 0; %s", err, out)
	}
	if !gone(pid) {
		t.Errorf("process %d of the system is left", pid)
	}
	s.want(0, "no system is running", "ps")
	s.want(0, "shop is not running", "down", "shop")
}

func TestDownStopsTheForegroundAndSeveral(t *testing.T) {
	t.Parallel()
	s := newSite(t, idle)
	cmd, out := s.foreground(s.compose)
	s.want(0, "other is up", "up", s.compose, "-d", "-p", "other")
	s.want(2, "2 systems are up: other, shop; name one, or give --all", "down")
	s.want(0, "shop is stopped", "down", "shop")
	if err := cmd.Wait(); err != nil {
		t.Errorf("got %v, want status 0; %s", err, out)
	}
	s.want(0, "other is stopped", "down")
}

// The shipped system starts from the program alone, answers at its published
// port, and keeps its data until it is told not to.
func TestUpDetachedAndDown(t *testing.T) {
	t.Parallel()
	s := newSite(t, idle)
	out := s.want(0, "results-embedded is up", "up", "results", "embedded", "--detach")
	url := regexp.MustCompile(`http://localhost:\d+/`).FindString(out)
	get(t, url)
	r, ok := s.record("results-embedded")
	if !ok || r.Phase != project.Up || r.Owner.PID == 0 {
		t.Errorf("got %+v, want it up", r)
	}
	data := filepath.Join(s.dir, "state/loadstone/up/results-embedded/volumes/data")
	s.want(0, "results-embedded is stopped", "down")
	if !gone(r.Owner.PID) && r.Owner.Alive("/proc") {
		t.Error("down came back before the end")
	}
	if _, err := os.Stat(filepath.Join(data, "results.db")); err != nil {
		t.Errorf("the data are gone: %v", err)
	}
	s.want(0, "are deleted", "down", "results-embedded", "--volumes")
	if _, err := os.Stat(data); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("--volumes: got %v, want that they are gone", err)
	}
}

func get(t *testing.T, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("%s: got %s, %v", url, res.Status, err)
	}
}

func TestAKilledUpLeavesNothingAndIsNotTakenForUp(t *testing.T) {
	t.Parallel()
	s := newSite(t, idle)
	s.want(0, "shop is up", "up", s.compose, "--detach")
	r, ok := s.record("shop")
	pid := s.started()
	if !ok {
		t.Fatalf("got %+v, want it up", r)
	}
	if err := r.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the system's process is gone", func() bool { return gone(pid) })
	s.want(0, "no system is running", "ps")
	s.want(0, "shop is up (", "up", s.compose, "--detach")
	s.want(0, "shop is stopped", "down")
}

func TestAPortThatIsTaken(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	s := newSite(t, idle, "PORT", port)
	want := fmt.Sprintf("service charts: port %s of 127.0.0.1 is taken by cli.test (pid %d)", port, os.Getpid())
	s.want(1, want, "up", s.compose)
	s.want(1, want, "up", s.compose, "-d")
	s.want(0, "no system is running", "ps")
	if s.web() != 0 {
		t.Error("a service was started")
	}
}

// A program that listens at every address has its published port itself.
func TestUpOfAProgramThatListensEverywhere(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s := newSite(t, `
name: everywhere
x-network: loopback
services:
  web:
    x-process: [PROGRAM, internal, plant, '{"listen":"0.0.0.0:PORT","admin":"127.0.0.1:0","workers":1}']
    ports: ["PORT:PORT"]
`, "PROGRAM", program, "PORT", port)
	s.want(0, "http://localhost:"+port+"/", "up", s.compose, "-d")
	asked := func() error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+port+"/1", http.NoBody)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
	if err := asked(); err != nil {
		t.Error(err)
	}
	s.want(0, "everywhere", "down", "everywhere")
	if err := asked(); err == nil {
		t.Error("it still answers")
	}
	// Somebody else who takes the port is named as before.
	taken, err := lc.Listen(t.Context(), "tcp4", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s.want(1, "is taken by cli.test", "up", s.compose, "-d")
}

// A port that ends while the system is up must not be dead in silence.
func TestADeadPortEndsTheSystem(t *testing.T) {
	t.Parallel()
	p := &ports{}
	if err := p.open(t.Context(), "web", topology.Published{Port: 80}, false); err != nil {
		t.Fatal(err)
	}
	if err := p.run(t.Context(), []topology.Instance{{Service: "web", Host: "127.0.0.1"}}); err != nil {
		t.Fatal(err)
	}
	k := &attached{ports: p, running: calm{}}
	if err := p.all[0].Close(); err != nil { // as if the kernel had done it
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	want := "publish at " + p.all[0].Address().String()
	if err := k.watch(ctx); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
	if err := p.close(); err != nil {
		t.Errorf("it is said twice: %v", err)
	}
}

// calm is a system in which nothing happens.
type calm struct{ driver.Running }

func (calm) Failed() <-chan error { return nil }
func (calm) Warnings() []string   { return nil }

func TestTheCommandThatStopsAPortsHolderNamesItsDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "it's mine")
	store := project.Store{Dir: dir}
	claim, err := store.Claim(t.Context(), project.Record{Name: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	target := &upTarget{store: store, dir: dir}
	err = target.explainTaken(&publish.TakenError{Holder: &publish.Holder{PID: os.Getpid()}})
	quoted := "'" + strings.ReplaceAll(dir, "'", `'\''`) + "'"
	if want := "stop it with `loadstone down shop --dir " + quoted + "`"; !strings.Contains(err.Error(), want) {
		t.Errorf("got %q, want %q in it", err, want)
	}
	if err := claim.Release(); err != nil {
		t.Error(err)
	}
	if got, want := downCommandFor("shop", "/srv/up-1"), "loadstone down shop --dir /srv/up-1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestUpWithOtherProfilesIsNotUpAlready(t *testing.T) {
	t.Parallel()
	s := newSite(t, idle+`  load: {x-process: [sleep, "1000"], profiles: [load]}`)
	s.want(0, "shop is up (", "up", s.compose, "-d", "--profile", "load")
	s.want(0, "shop is already running", "up", s.compose, "--profile", "load", "--profile", "load")
	for _, detach := range []string{"--detach=false", "--detach"} {
		s.want(1, "shop is already running, but with the profile load, not without profiles; stop it first with `loadstone down shop`", "up", s.compose, detach)
	}
	s.want(1, "not with the profiles load, more;", "up", s.compose, "--profile", "more,load")
	s.want(0, "shop is stopped", "down")
}

// An up that begins while volumes are deleted would lose its new data.
func TestVolumesStayWhileAnUpBegins(t *testing.T) {
	t.Parallel()
	s := newSite(t, idle)
	store := project.Store{Dir: filepath.Join(s.dir, "state/loadstone/up")}
	data := filepath.Join(store.Volumes("shop"), "data")
	if err := os.MkdirAll(data, 0o755); err != nil {
		t.Fatal(err)
	}
	// One that has the lock and has not written its record yet.
	lock, err := os.Create(filepath.Join(store.Path("shop"), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	s.want(1, "the volumes of shop are kept", "down", "shop", "--volumes")
	if _, err := os.Stat(data); err != nil {
		t.Errorf("they are gone: %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	s.want(0, "the volumes of shop are deleted", "down", "shop", "--volumes")
	if _, err := os.Stat(data); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that they are gone", err)
	}
	if r, ok := s.record("shop"); ok || r.Phase != project.Down {
		t.Errorf("got %+v, want it down", r)
	}
}

func TestDockersPortsAsTheyAreReached(t *testing.T) {
	t.Parallel()
	s := &topology.System{Services: []topology.Service{{Name: "web", Published: []topology.Published{{HostPort: 8080, Port: 80}}}}}
	for all, want := range map[bool]string{false: "127.0.0.1:8080", true: "0.0.0.0:8080"} {
		if got := declaredPorts(s, all); len(got) != 1 || got[0].Address != want {
			t.Errorf("all %v: got %+v, want %s", all, got, want)
		}
	}
}

func TestUpSaysWhyItFailed(t *testing.T) {
	t.Parallel()
	s := newSite(t, strings.Replace(idle, "exit 0", "echo no space >&2; exit 3", 1))
	for _, args := range [][]string{{"up", s.compose}, {"up", s.compose, "-d"}} {
		out := s.want(1, "prepare-1 exited with status 3", args...)
		if strings.Count(out, "no space") != 1 {
			t.Errorf("%q: got %q, want its last line once", args, out)
		}
	}
	s.want(0, "no system is running", "ps")
}

func TestADeadInstanceIsStartedAgainIfItsServiceAsksForIt(t *testing.T) {
	t.Parallel()
	s := newSite(t, idle, "RESTART", "restart: unless-stopped")
	cmd, out := s.foreground(s.compose)
	last := s.started()
	for times := range 2 {
		if err := syscall.Kill(last, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		last = s.started(last)
		// Killed before, it would not be ready a second time.
		eventually(t, "it is said", func() bool { return strings.Count(out.String(), "web-1 is ready again") == times+1 })
	}
	if !strings.Contains(out.String(), "web-1 was killed by SIGKILL; it will be restarted in 500ms") {
		t.Errorf("got %q", out)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || !gone(last) {
		t.Errorf("after Ctrl-C: %v; %s", err, out)
	}
}

// A driver refuses to start an instance twice at a time, and one may end again before the driver is
// done with starting it.
func TestAnInstanceIsStartedOnceAtATime(t *testing.T) {
	t.Parallel()
	system := &topology.System{Services: []topology.Service{{Name: "web", Restart: topology.Always}}}
	k := &attached{app: &app{Env: Env{Stderr: io.Discard}}, target: &upTarget{system: system}, running: &slowToStart{}, restarts: map[string]*restart{}}
	done := make(chan error)
	for range 2 {
		start := k.again(&driver.ExitError{Instance: "web-1", Status: "was killed by SIGKILL"})
		go func() { done <- start(t.Context()) }()
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// slowToStart takes longer to start an instance than it is waited before the next start.
type slowToStart struct {
	calm
	under atomic.Bool
}

func (s *slowToStart) Start(_ context.Context, instance string) (launched time.Time, err error) {
	if !s.under.CompareAndSwap(false, true) {
		return time.Time{}, fmt.Errorf("%s is being changed already", instance)
	}
	defer s.under.Store(false)
	time.Sleep(4 * firstBackOff)
	return time.Now(), nil
}

// A replica that comes back while its database is away must not take all others
// with it.
func TestAnInstanceThatIsNotReadyAgainLeavesTheSystemUp(t *testing.T) {
	t.Parallel()
	sick := filepath.Join(t.TempDir(), "sick")
	s := newSite(t, idle, "RESTART", "restart: unless-stopped\n    healthcheck: {test: [CMD, test, '!', -e, "+sick+"], interval: 100ms, retries: 2, start_period: 200ms}")
	cmd, out := s.foreground(s.compose)
	first := s.started()
	if err := os.WriteFile(sick, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	second := s.started(first)
	eventually(t, "it is said", func() bool { return strings.Contains(out.String(), "web-1 was restarted but is not ready") })
	if r, ok := s.record("shop"); !ok || r.Phase != project.Up || gone(second) {
		t.Errorf("got %v, phase %s, want the system up; %s", ok, r.Phase, out)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after Ctrl-C: %v; %s", err, out)
	}
}

func TestADeadInstanceEndsTheSystemOtherwise(t *testing.T) {
	t.Parallel()
	s := newSite(t, idle, "RESTART", "restart: 'no'")
	cmd, out := s.foreground(s.compose)
	if err := syscall.Kill(s.started(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitFailed || !strings.Contains(out.String(), "web-1 was killed by SIGKILL") {
		t.Errorf("got status %d and %q", code, out)
	}
}

// The variant has the port of the shipped system, which another test starts: that one runs in
// parallel, and so never beside this one.
func TestUpOfAVariant(t *testing.T) {
	s := newSite(t, idle)
	path := small(t, s.dir)
	s.want(2, `has no variant "snapshto"; did you mean "snapshot"? the variants are query, snapshot`, "up", path, "snapshto")
	s.want(0, "results is up", "up", path, "snapshot", "-d")
	s.want(1, "but it is `"+path+" snapshot`", "up", path, "query")
	s.want(0, "results is stopped", "down")
}

func TestUpSaysThatItDoesNotScale(t *testing.T) {
	t.Parallel()
	// Two instances that write one file would be in each other's way.
	const write = "echo $$$$ > $DIR/web.pid.new && mv $DIR/web.pid.new $DIR/web.pid && "
	s := newSite(t, idle, write, "", "RESTART", `deploy: {replicas: 2, resources: {limits: {cpus: "0.5"}}}
    x-autoscale:
      maxReplicas: 4
      metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}}]`)
	s.want(0, "warning: service web: x-autoscale is only followed by `loadstone run`; here its replicas stay 2", "up", s.compose, "-d")
	r, ok := s.record("shop")
	running := 0
	for _, service := range r.Services {
		if service.Name == "web" {
			running = len(service.Addresses)
		}
	}
	if !ok || running != 2 {
		t.Errorf("got %d instances of web in %+v, want 2", running, r)
	}
	s.want(0, "shop is stopped", "down")
}

func TestUpRefusesWrongArguments(t *testing.T) {
	t.Parallel()
	s := newSite(t, idle)
	empty := t.TempDir()
	for _, c := range []struct {
		want string
		args []string
	}{
		{`there is no system "reslts"; did you mean "results"?`, []string{"up", "reslts"}},
		{`results has no form "embeddd"; did you mean "embedded"? the forms are full, embedded`, []string{"up", "results", "embeddd"}},
		{"only experiments have variants", []string{"up", s.compose, "x"}},
		{"no such file", []string{"up", "./none.yaml"}},
		{"there is no Compose file in " + empty, []string{"up", empty + "/"}},
		{`--driver doker: did you mean "docker"?`, []string{"up", s.compose, "--driver", "doker"}},
		{`"Shop" is not a valid project name`, []string{"up", s.compose, "-p", "Shop"}},
		{"see 'loadstone up --help'", []string{"up"}},
		{"exclude each other", []string{"down", "shop", "--all"}},
		{"none was ever up", []string{"down", "shop"}},
		{"name the system whose volumes", []string{"down", "--volumes"}},
	} {
		s.want(exitUsage, c.want, c.args...)
	}
}

func TestUpCompletesSystemsAndVariants(t *testing.T) {
	t.Parallel()
	s := newSite(t, idle)
	for want, args := range map[string][]string{
		"results\n:0":                     {"up", ""},
		"full\nembedded\n:4":              {"up", "results", ""},
		"query\nsnapshot\n:4":             {"up", small(t, s.dir), ""},
		"process\ndocker\nkubernetes\n:4": {"up", "results", "--driver", ""},
	} {
		got := s.run(append([]string{"__complete"}, args...)...)
		if !strings.Contains(got.stdout, want) {
			t.Errorf("%q: got %q, want %q", args, got.stdout, want)
		}
	}
}

// A record that another version has written must not break this one.
func TestPublishedPortsAsTheyAreReached(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ port, want string }{
		{`{"address": "127.0.0.1:8080", "port": 80}`, "http://localhost:8080/"},
		{`{"address": "0.0.0.0:8443", "port": 443}`, "https://localhost:8443/"},
		{`{"address": "10.0.0.1:15432", "port": 5432}`, "10.0.0.1:15432"},
		{`{"address": "[::1]:80", "port": 80}`, "http://[::1]:80/"},
		{`{"address": "nonsense"}`, "nonsense"},
	} {
		var p project.Port
		if err := json.Unmarshal([]byte(c.port), &p); err != nil {
			t.Fatal(err)
		}
		if got := reachedAt(p); got != c.want {
			t.Errorf("%s: got %s, want %s", c.port, got, c.want)
		}
	}
}
