package recipe

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"loadstone/lab/topology"
)

func TestFindGoesByTheRepository(t *testing.T) {
	t.Parallel()
	f := func(image, want string) {
		t.Helper()
		got := ""
		if r, ok := Find(image); ok {
			got = r.Image
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", image, got, want)
		}
	}
	f("postgres", "postgres")
	f("postgres:16-alpine", "postgres")
	f("postgres@sha256:0123", "postgres")
	f("docker.io/library/postgres:15", "postgres")
	f("localhost:5000/postgres:15", "postgres")
	f("public.ecr.aws/docker/library/redis:7", "redis")
	f("quay.io/prometheus/node-exporter:v1.8.0", "prom/node-exporter")
	f("prom/prometheus:v2.42.0", "prom/prometheus")
	f("gcr.io/cadvisor/cadvisor:v0.49.1", "cadvisor/cadvisor")
	f("bitnami/postgresql:15", "")
	f("bitnami/postgres:15", "")
	f("ghcr.io/someone/nginx", "")
	f("postgresql", "")
	f("", "")
}

func TestEveryRecipeIsWhole(t *testing.T) {
	t.Parallel()
	for _, r := range All() {
		if len(r.Programs) == 0 || (r.Package == "") == (r.Build == "") || r.Port == 0 || r.StopSignal == 0 || r.versionParts == 0 || r.start == nil {
			t.Errorf("%s: incomplete: %+v", r.Image, r)
		}
		if found, ok := Find(r.Image); !ok || found != r {
			t.Errorf("%s is not found by its own name", r.Image)
		}
	}
	if !slices.IsSortedFunc(All(), func(a, b *Recipe) int { return strings.Compare(a.Image, b.Image) }) {
		t.Error("the table is not sorted by image")
	}
}

// program makes a program that says text.
func program(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho '"+text+"'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestLocatePrefersTheVersionThatIsAsked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, v := range []string{"9", "15", "17"} {
		program(t, filepath.Join(dir, v, "bin"), "thing", "thing (Thing) "+v+".3 built 2020.1")
		program(t, filepath.Join(dir, v, "bin"), "more", "")
	}
	program(t, filepath.Join(dir, "18", "bin"), "thing", "incomplete")
	program(t, filepath.Join(dir, "path"), "thing", "no number")
	program(t, filepath.Join(dir, "path"), "more", "")
	r := &Recipe{Image: "thing", Programs: []string{"thing", "more"}, Package: "thing-server", versionParts: 1}
	f := func(image, pattern, want, warning string) {
		t.Helper()
		with := *r
		if pattern != "" {
			with.dirs = []string{filepath.Join(dir, pattern)}
		}
		found, err := with.Locate(t.Context(), image, "relative:"+filepath.Join(dir, "path"))
		if err != nil {
			t.Errorf("%s: %v", image, err)
			return
		}
		if got := found.Files["more"]; got != filepath.Join(dir, want, "more") {
			t.Errorf("%s: got %s, want one in %s", image, got, want)
		}
		if got := found.Warning; !strings.Contains(got, warning) || (got == "") != (warning == "") {
			t.Errorf("%s: got warning %q, want %q", image, got, warning)
		}
	}
	f("thing", "*/bin", "17/bin", "")
	f("thing:latest", "*/bin", "17/bin", "")
	f("thing:15", "*/bin", "15/bin", "")
	f("thing:v15.1-alpine", "*/bin", "15/bin", "")
	f("thing:9", "*/bin", "9/bin", "")
	f("thing:16", "*/bin", "17/bin", "the image is thing:16, but the installed version, thing 17.3, is used")
	f("thing:16", "", "path", "the version of thing could not be determined")

	none := &Recipe{Image: "thing", Programs: []string{"no-such-program"}, Package: "thing-server"}
	_, err := none.Locate(t.Context(), "thing:1", "/usr/bin")
	var missing *MissingError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "the program no-such-program is needed") || !strings.Contains(err.Error(), "apt-get install thing-server") || !strings.Contains(err.Error(), "Docker") {
		t.Errorf("got %v", err)
	}
}

// testInstance is one at 127.77.1.9 with two instances of api.
func testInstance(t *testing.T, volumes ...topology.Volume) *Instance {
	t.Helper()
	in := &Instance{
		Service: topology.Service{Name: "x", Volumes: volumes, Environment: map[string]string{}},
		Host:    "127.77.1.9", Hosts: map[string][]string{"api": {"127.77.1.1", "127.77.1.2"}, "one": {"127.77.1.3"}},
		Dir: t.TempDir(), Volumes: map[string]string{"data": "/volumes/data"}, Path: "/usr/bin",
		Files: map[string]string{}, UID: os.Geteuid(), GID: os.Getegid(),
		Run:   func(context.Context, Step) error { return nil },
		Warnf: func(format string, args ...any) { t.Logf("warning: "+format, args...) },
	}
	if err := in.writeTexts(); err != nil {
		t.Fatal(err)
	}
	return in
}

func TestPathsInsideTheContainerAreTranslated(t *testing.T) {
	t.Parallel()
	in := testInstance(t, topology.Volume{Name: "data", Target: "/data/"}, topology.Volume{Source: "/home/me/conf", Target: "/etc/conf"},
		topology.Volume{Source: "/home/me/one", Target: "/etc/conf/one"}, topology.Volume{Source: "/", Target: "/host"}, topology.Volume{Text: "secret", Target: "/run/secrets/s"})
	f := func(inside, want string) {
		t.Helper()
		if got := in.path(inside); got != want {
			t.Errorf("%s: got %s, want %s", inside, got, want)
		}
	}
	f("/data", "/volumes/data")
	f("/data/x/../y", "/volumes/data/y")
	f("/database", in.Dir+"/root/database")
	f("/etc/conf/a/b", "/home/me/conf/a/b")
	f("/etc/conf/one", "/home/me/one")
	f("/etc/conf/one.bak", "/home/me/conf/one.bak")
	f("/host/proc", "/proc")
	f("/run/secrets/s", in.Dir+"/texts/4/s")
	f("/../../etc/passwd", in.Dir+"/root/etc/passwd")
	if text, err := os.ReadFile(in.path("/run/secrets/s")); err != nil || string(text) != "secret" {
		t.Errorf("got %q, %v", text, err)
	}
	got := in.pathFlags([]string{"--a=/data/x", "--b", "/etc/conf/one", "--c=plain", "/no/such/file", "--d=/usr", "--e=1/2"})
	want := []string{"--a=/volumes/data/x", "--b", "/home/me/one", "--c=plain", in.Dir + "/root/no/such/file", "--d=/usr", "--e=1/2"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSettingsComeFromTheEnvironmentOrAFile(t *testing.T) {
	t.Parallel()
	in := testInstance(t, topology.Volume{Text: "from file\n", Target: "/s"})
	in.Service.Environment = map[string]string{"A": "plain", "B_FILE": "/s", "C": "x", "C_FILE": "/s", "D_FILE": "/none"}
	for name, want := range map[string]string{"A": "plain", "B": "from file", "Z": ""} {
		if got, err := in.setting(name); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
		}
	}
	for name, want := range map[string]string{"C": "both C and C_FILE are set", "D": "where no file is mounted"} {
		if _, err := in.setting(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
}

func TestOnlyTheImagesProgramIsStarted(t *testing.T) {
	t.Parallel()
	f := func(command []string, want []string) {
		t.Helper()
		in := testInstance(t)
		in.Service.Arguments = command
		got, err := in.arguments([]string{"prog"}, "own")
		if err != nil && want != nil || err == nil && !slices.Equal(got, want) {
			t.Errorf("%q: got %q, %v, want %q", command, got, err, want)
		}
	}
	f(nil, []string{"own"})
	f([]string{"prog"}, []string{})
	f([]string{"prog", "-a"}, []string{"-a"})
	f([]string{"-a"}, []string{"-a"})
	f([]string{"sh", "-c", "prog"}, nil)
	in := testInstance(t)
	in.Service.Entrypoint = []string{"other"}
	for _, r := range All() {
		if _, err := r.Start(t.Context(), in); err == nil || !strings.Contains(err.Error(), "x-process") {
			t.Errorf("%s with an entrypoint: got %v", r.Image, err)
		}
	}
}

func TestExportersFlags(t *testing.T) {
	t.Parallel()
	f := func(e exporter, env map[string]string, given, want []string) {
		t.Helper()
		in := testInstance(t, topology.Volume{Source: "/", Target: "/host"})
		in.program, in.port, in.Files = "x", 9000, map[string]string{"x": "/bin/x"}
		in.Service.Environment, in.Service.Arguments = env, given
		got, err := e.start(t.Context(), in)
		if err != nil || !slices.Equal(got.Command[1:], want) {
			t.Errorf("%q: got %+v, %v, want %q", given, got, err, want)
		}
	}
	e := exporter{names: []string{"x"}, env: "LISTEN", unknown: []string{"new"}, own: []string{"--no-bad"}}
	f(e, nil, nil, []string{"--no-bad", "--web.listen-address=127.77.1.9:9000"})
	f(e, nil, []string{"x", "--web.listen-address", ":81", "--a=/host/proc"}, []string{"--a=/proc", "--no-bad", "--web.listen-address=127.77.1.9:81"})
	f(e, map[string]string{"LISTEN": "0.0.0.0:82"}, []string{"--bad"}, []string{"--bad", "--web.listen-address=127.77.1.9:82"})
	f(e, nil, []string{"--new=1", "--no-new", "--new", "2", "-b"}, []string{"-b", "--no-bad", "--web.listen-address=127.77.1.9:9000"})
}

func TestSubstituteLeavesWhatIsNotSet(t *testing.T) {
	t.Parallel()
	env := map[string]string{"API": "a b", "OTHER": "o", "EMPTY": ""}
	f := func(filter, text, want string) {
		t.Helper()
		if got := substitute(text, env, regexp.MustCompile(filter)); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	f("", "$API ${API}x $host ${host} $EMPTY. $$API $APIX ${API", "a b a bx $host ${host} . $a b $APIX ${API")
	f("^API$", "$API $OTHER", "a b $OTHER")
}

func TestPortOfPostgres(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{"5432": {"-c", "x=1"}, "1": {"-p", "1"}, "2": {"-c", "port=2"}, "3": {"--port=3"}, "4": {"-p4"}} {
		if got := port(args); got != want {
			t.Errorf("%q: got %s, want %s", args, got, want)
		}
	}
}

func TestALockOfAServerThatIsGoneIsRemoved(t *testing.T) {
	t.Parallel()
	p := &postgres{Instance: testInstance(t), data: t.TempDir()}
	file := filepath.Join(p.data, "postmaster.pid")
	lock := func(pid int) {
		t.Helper()
		if err := os.WriteFile(file, []byte(strconv.Itoa(pid)+"\n"+p.data+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	cmd.Dir = p.data
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lock(cmd.Process.Pid)
	if err := p.unlock(); err == nil || !strings.Contains(err.Error(), "is in use by process "+strconv.Itoa(cmd.Process.Pid)) {
		t.Errorf("a server that lives: got %v", err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for _, pid := range []int{cmd.Process.Pid, os.Getpid()} { // gone, and another's
		lock(pid)
		if err := p.unlock(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(file); err == nil {
			t.Errorf("the lock of process %d is still there", pid)
		}
	}
	if err := p.unlock(); err != nil {
		t.Errorf("without a lock: %v", err)
	}
}
