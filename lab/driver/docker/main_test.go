package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"loadstone/lab/driver"
	"loadstone/lab/driver/guardian"
	"loadstone/lab/topology"
)

// The test binary is also a guardian, and a lab to be killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "lab" {
		syscall.Exit(lab(os.Args[2]))
	}
	if len(os.Args) > 1 && os.Args[1] == "internal-guardian" {
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
		// Not os.Exit, in which the race detector waits for a second.
		syscall.Exit(fail(guardian.Run(context.Background(), os.Stdin, os.Stdout)))
	}
	os.Exit(m.Run())
}

func fail(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// labConfig is what a test tells a lab that it starts as a process.
type labConfig struct {
	ComposeFile string            `json:"compose_file"`
	Dir         string            `json:"dir"`
	Env         map[string]string `json:"env"`
}

// lab brings a system up, says so, and waits for a signal.
func lab(text string) int {
	var lc labConfig
	if err := json.Unmarshal([]byte(text), &lc); err != nil {
		return fail(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	system, err := topology.Load(ctx, topology.Config{ComposeFiles: []string{lc.ComposeFile}})
	if err != nil {
		return fail(err)
	}
	r, err := bringUp(ctx, testConfig(system, lc.Dir, lc.Env))
	if err != nil {
		return fail(err)
	}
	fmt.Println("up")
	<-ctx.Done()
	return fail(r.Down(context.Background()))
}

var notOfAName = regexp.MustCompile(`[^a-zA-Z0-9]+`)

func testConfig(s *topology.System, dir string, env map[string]string) setup {
	c := setup{Driver: Driver{Settings: driver.DefaultSettings()}}
	c.System, c.LogDir, c.Env = s, filepath.Join(dir, "logs"), env
	c.VolumePrefix = "loadstone-test-" + notOfAName.ReplaceAllString(filepath.Base(filepath.Dir(dir))+filepath.Base(dir), "")
	c.Guardian = []string{os.Args[0], "internal-guardian"}
	return c
}

// environment is this process's, as far as Docker's commands get to see it.
func environment() map[string]string {
	env := map[string]string{}
	for _, key := range passed {
		if value, ok := os.LookupEnv(key); ok {
			env[key] = value
		}
	}
	return env
}

// daemon is the environment with which a Docker daemon is reached: the one that
// answers, or else one that the test starts for itself and stops afterwards.
func daemon(t *testing.T) map[string]string {
	t.Helper()
	env := environment()
	c, err := newClient(env, "")
	if err != nil {
		missing(t, err)
	}
	if _, err := c.engine(t.Context()); err == nil {
		return env
	}
	server, ok := c.find("dockerd")
	if !ok || os.Geteuid() != 0 {
		missing(t, errors.New("no Docker daemon answers, and only root can start one (dockerd)"))
	}
	env["DOCKER_HOST"] = startDaemon(t, server)
	if c, err = newClient(env, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := c.engine(t.Context()); err != nil {
		missing(t, err)
	}
	return env
}

func missing(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("CI must have Docker: %v", err)
	}
	t.Skip(err)
}

// startDaemon starts a daemon with all that is its own below one directory. It
// has no bridge but those of Compose's networks, and sets no iptables rules and
// no forwarding: containers reach each other and this machine reaches them,
// which is all that the tests need, and nothing of it stays.
func startDaemon(t *testing.T, server string) (host string) {
	t.Helper()
	// Short, because the path of a socket has to be.
	dir, err := os.MkdirTemp("", "lsdocker") //nolint:usetesting // as said
	if err != nil {
		t.Fatal(err)
	}
	host = "unix://" + filepath.Join(dir, "docker.sock")
	parent := filepath.Base(dir)
	var said bytes.Buffer
	cmd := exec.CommandContext(context.Background(), server,
		"--data-root", filepath.Join(dir, "data"), "--exec-root", filepath.Join(dir, "exec"), "--pidfile", filepath.Join(dir, "pid"),
		"--host", host, "--bridge", "none", "--iptables=false", "--ip6tables=false", "--ip-forward=false",
		"--default-address-pool", "base=10.231.0.0/16,size=24",
		"--exec-opt", "native.cgroupdriver=cgroupfs", "--cgroup-parent", "/"+parent)
	// A containerd that answers too late writes its stacks there.
	cmd.Env = append(cmd.Environ(), "TMPDIR="+dir)
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // containerd with it
			<-ended
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the daemon's directory: %v", err)
		}
		groups, _ := filepath.Glob("/sys/fs/cgroup/*/" + parent)
		for _, group := range append(groups, "/sys/fs/cgroup/"+parent) {
			if err := os.Remove(group); err != nil && !os.IsNotExist(err) {
				t.Errorf("remove the daemon's control group: %v", err)
			}
		}
	})
	for deadline := time.Now().Add(2 * time.Minute); ; {
		if exec.CommandContext(t.Context(), "docker", "--host", host, "version").Run() == nil {
			return host
		}
		select {
		case err := <-ended:
			ended <- err
			missing(t, fmt.Errorf("dockerd does not start here: %w: %s", err, driver.LastLine(said.String())))
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatal("dockerd does not answer within two minutes")
		}
	}
}

// dockerRun runs docker for the test itself.
func dockerRun(t *testing.T, env map[string]string, args ...string) string {
	t.Helper()
	return dockerRunIn(t, env, quickWithin, args...)
}

func dockerRunIn(t *testing.T, env map[string]string, within time.Duration, args ...string) string {
	t.Helper()
	c, err := newClient(env, "")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := c.run(context.Background(), call{argv: append([]string{c.docker}, args...), within: within, out: &out}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// bringUp is Up with the types of this package.
func bringUp(ctx context.Context, c setup) (*Running, error) {
	r, err := c.Up(ctx, c.Config)
	if err != nil {
		return nil, err
	}
	return r.(*Running), nil
}
