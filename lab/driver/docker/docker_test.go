package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"loadstone/lab/driver"
	"loadstone/lab/driver/drivertest"
	"loadstone/lab/topology"
)

// TestWithADaemon has all tests that need one, which takes seconds to start.
func TestWithADaemon(t *testing.T) {
	env := daemon(t)
	image := buildImage(t, env)
	d := drivertest.Driver{
		Image: image, Limits: true,
		Up: func(ctx context.Context, s *topology.System, dir string) (driver.Running, error) {
			c := testConfig(s, dir, env)
			t.Cleanup(func() { removeVolumes(t, env, c.VolumePrefix) })
			return c.Up(ctx, c.Config)
		},
		Lab: func(composeFile, dir string) []string {
			text, err := json.Marshal(labConfig{composeFile, dir, env})
			if err != nil {
				t.Fatal(err)
			}
			return []string{os.Args[0], "lab", string(text)}
		},
		Left: func(t *testing.T, lab int) []string { return leftOf(t, env, lab) },
	}
	drivertest.Run(t, d)
	t.Run("what a lab and its guardian left is swept next time", func(t *testing.T) { testSweep(t, env, d) })
	t.Run("ports are published, and taken ones named", func(t *testing.T) { testPorts(t, env, image) })
	t.Run("an instance that has ended is started again", func(t *testing.T) { testAgain(t, env, image) })
	t.Run("what is missing is named", func(t *testing.T) { testMissing(t, env, image) })
	t.Run("a service without instances needs no image", func(t *testing.T) { testNoInstances(t, d, image) })
	t.Run("configs and secrets are mounted", func(t *testing.T) { testConfigs(t, env, image) })
}

// buildImage builds an image of the suite's program with the project's own
// Dockerfile, from nothing.
func buildImage(t *testing.T, env map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	drivertest.Build(t, filepath.Join(dir, "bin"))
	deploy, err := filepath.Abs("../../../deploy")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "deploy", "data"), os.DirFS(filepath.Join(deploy, "data"))); err != nil {
		t.Fatal(err)
	}
	image := fmt.Sprintf("%s:drivertest-%d", topology.Self, os.Getpid())
	dockerRunIn(t, env, createWithin, "build", "--quiet", "--tag", image, "--target", "prebuilt", "--file", filepath.Join(deploy, "Dockerfile"), dir)
	t.Cleanup(func() { dockerRun(t, env, "rmi", "--force", image) })
	return image
}

func removeVolumes(t *testing.T, env map[string]string, prefix string) {
	t.Helper()
	for name := range strings.FieldsSeq(dockerRun(t, env, "volume", "ls", "--quiet", "--filter", "name="+prefix)) {
		dockerRun(t, env, "volume", "rm", name)
	}
}

// leftOf is all of the runs of the lab with a pid.
func leftOf(t *testing.T, env map[string]string, lab int) []string {
	t.Helper()
	prefix := fmt.Sprintf("%s%d-", driver.RunPrefix, lab)
	var left []string
	for _, list := range [][]string{{"ps", "--all"}, {"network", "ls"}} {
		out := dockerRun(t, env, append(list, "--format", `{{.ID}} {{.Label "com.docker.compose.project"}}`)...)
		for line := range strings.Lines(out) {
			if _, project, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(project, prefix) {
				left = append(left, strings.Join(list, " ")+": "+line)
			}
		}
	}
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	return append(left, dirs...)
}

func system(t *testing.T, dir, compose string) *topology.System {
	t.Helper()
	path := filepath.Join(dir, "compose.yaml")
	if err := os.WriteFile(path, []byte(compose), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := topology.Load(t.Context(), topology.Config{ComposeFiles: []string{path}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func testSweep(t *testing.T, env map[string]string, d drivertest.Driver) {
	dir := t.TempDir()
	s := system(t, dir, `services: {api: {image: `+d.Image+`, command: [sleep]}}`)
	argv := d.Lab(filepath.Join(dir, "compose.yaml"), dir)
	lab := startLab(t, argv)
	files, _ := filepath.Glob("/proc/[0-9]*/fd/2")
	for _, file := range files { // the guardian's log is its standard error
		if to, _ := os.Readlink(file); to == filepath.Join(dir, "logs", "guardian.log") {
			var pid int
			if _, err := fmt.Sscanf(file, "/proc/%d/", &pid); err != nil {
				t.Fatal(err)
			}
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	_ = lab.Kill()
	_, _ = lab.Wait()
	if left := leftOf(t, env, lab.Pid); len(left) == 0 {
		t.Error("a lab and its guardian that are killed leave nothing: nothing is tested")
	}
	r, err := d.Up(t.Context(), s, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Down(context.Background()) }()
	if left := leftOf(t, env, lab.Pid); len(left) > 0 {
		t.Errorf("there is left: %q", left)
	}
}

func startLab(t *testing.T, argv []string) *os.Process {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	lab, err := os.StartProcess(argv[0], argv, &os.ProcAttr{Files: []*os.File{nil, w, os.Stderr}, Env: os.Environ()})
	_ = w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lab.Kill() })
	up := make([]byte, 3)
	if _, err := r.Read(up); err != nil || string(up) != "up\n" {
		t.Fatalf("got %q, %v from the lab, want up", up, err)
	}
	return lab
}

func testPorts(t *testing.T, env map[string]string, image string) {
	listener, port := drivertest.Listen(t, "127.0.0.1")
	compose := fmt.Sprintf(`services: {api: {image: %s, command: [serve, "0.0.0.0:8080", /data/notes], ports: ["127.0.0.1:%s:8080"]}}`, image, port)
	dir := t.TempDir()
	s := system(t, dir, compose)
	t.Cleanup(func() { removeVolumes(t, env, testConfig(s, dir, env).VolumePrefix) })
	c := testConfig(s, dir, env)
	r := &Running{config: c}
	err := r.Up(t.Context(), r, &c.Settings, c.Progress)
	if want := "start api-1: the port 127.0.0.1:" + port + " of this machine is taken"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
	for _, in := range r.instances {
		if in.Life() != nil {
			t.Errorf("%s has a life, whose end was waited for", in.Name)
		}
	}
	_ = listener.Close()
	r, err = bringUp(t.Context(), testConfig(s, dir, env))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Down(context.Background()) }()
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		t.Fatalf("the published port: %v", err)
	}
	_ = conn.Close()
}

func testNoInstances(t *testing.T, d drivertest.Driver, image string) {
	dir := t.TempDir()
	r, err := d.Up(t.Context(), system(t, dir, `services:
  api: {image: `+image+`, command: [sleep], depends_on: [other]}
  other: {image: nobody/nothing, deploy: {replicas: 0}}`), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Down(context.Background()); err != nil {
		t.Error(err)
	}
}

func testMissing(t *testing.T, env map[string]string, image string) {
	f := func(compose, want string) {
		t.Helper()
		dir := t.TempDir()
		r, err := bringUp(t.Context(), testConfig(system(t, dir, compose), dir, env))
		if err == nil {
			_ = r.Down(context.Background())
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("got %v, want one sentence with %q", err, want)
		}
	}
	f(`services: {api: {image: "localhost:1/no/such:1"}}`, "make the containers: ")
	f(`services: {api: {image: `+image+`, entrypoint: [/no/such/program]}}`, "there is no program /no/such/program in the image")
	f(`services: {api: {x-process: [./server]}}`, "service api: it has no image, only x-process")
	if left := leftOf(t, env, os.Getpid()); len(left) > 0 {
		t.Errorf("there is left: %q", left)
	}
	err := Driver{Settings: driver.Settings{Env: env}}.Check(t.Context(), system(t, t.TempDir(), `services: {api: {image: redis}}`))
	if err != nil {
		t.Errorf("Check: %v", err)
	}
	gone := map[string]string{"PATH": os.Getenv("PATH"), "DOCKER_HOST": "unix:///no/such/socket"}
	err = Driver{Settings: driver.Settings{Env: gone}}.Check(t.Context(), system(t, t.TempDir(), `services: {api: {image: redis}}`))
	if err == nil || !strings.HasPrefix(err.Error(), "the Docker daemon does not answer at unix:///no/such/socket; start it") {
		t.Errorf("without a daemon: got %v", err)
	}
}

func testConfigs(t *testing.T, env map[string]string, image string) {
	dir := t.TempDir()
	r, err := bringUp(t.Context(), testConfig(system(t, dir, `
services:
  api:
    image: `+image+`
    command: [sleep]
    configs: [{source: text, target: /etc/text}]
    secrets: [key]
    healthcheck: {test: [CMD, loadstone, check, /etc/text], interval: 5s}
    networks: [inner]
  other:
    image: `+image+`
    command: [sleep]
    secrets: [key]
    healthcheck: {test: [CMD, loadstone, check, /run/secrets/key], interval: 5s}
configs: {text: {content: "a text"}}
secrets: {key: {file: compose.yaml}}
networks: {inner: {}}
`), dir, env))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Down(context.Background()); err != nil {
		t.Error(err)
	}
	if left := leftOf(t, env, os.Getpid()); len(left) > 0 {
		t.Errorf("there is left: %q", left)
	}
}

func TestWithoutDocker(t *testing.T) {
	t.Parallel()
	s := system(t, t.TempDir(), `services: {api: {image: redis}}`)
	if err := (Driver{Settings: driver.Settings{Env: map[string]string{"PATH": t.TempDir()}}}).Check(t.Context(), s); err == nil || !strings.HasPrefix(err.Error(), "docker is not installed; install it") {
		t.Errorf("got %v", err)
	}
}

func TestWhatDockerSaysBecomesASentence(t *testing.T) {
	t.Parallel()
	f := func(said, want string) {
		t.Helper()
		if got := explain("docker start", said, nil).Error(); !strings.HasPrefix(got, want) {
			t.Errorf("%q:\ngot  %q\nwant %q", said, got, want)
		}
	}
	f("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?", "the Docker daemon does not answer at unix:///var/run/docker.sock; start it")
	f("Got permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock: Get ...", "this user may not talk to the Docker daemon;")
	f("permission denied while trying to connect to the docker API at unix:///var/run/docker.sock", "this user may not talk to the Docker daemon;")
	f("pull access denied for loadstone, repository does not exist or may require 'docker login'", "the image loadstone is not on this machine; build it with `docker build")
	f("Pulling db (nobody/nothing:)...\npull access denied for nobody/nothing, repository does not exist", "the image nobody/nothing is not on this machine and there is none to pull;")
	f("manifest for redis:99 not found: manifest unknown: manifest unknown", "there is no image redis:99 to pull;")
	f(`Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io on 10.0.0.1:53: no such host`, "an image is not on this machine and cannot be pulled, because its registry cannot be reached (dial tcp: lookup registry-1.docker.io)")
	f("Error response from daemon: driver failed programming external connectivity on endpoint x: Bind for 0.0.0.0:8080 failed: port is already allocated\nError: failed to start containers: x", "the port 0.0.0.0:8080 of this machine is taken;")
	f("Error starting userland proxy: listen tcp4 127.0.0.1:8080: bind: address already in use", "the port 127.0.0.1:8080 of this machine is taken;")
	f("first\nit broke", "docker start failed: it broke")
	f("", "docker start failed")
}
