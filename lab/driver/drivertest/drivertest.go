// Package drivertest is the one test suite of all drivers: what a system may
// rely on, whether its services are local processes or containers. It owns the
// systems that it starts, and knows of a driver only what Driver says.
//
// Its services run a program of its own, testdata/program, which Build builds.
package drivertest

import (
	"bufio"
	"context"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"loadstone/lab/driver"
	"loadstone/lab/topology"
)

// Driver is what is tested.
type Driver struct {
	// Image is what the services have, which stands for the suite's program.
	Image string
	// Up brings a system up, with the directory for its logs and volumes. The
	// same directory means the same volumes.
	Up func(ctx context.Context, s *topology.System, dir string) (driver.Running, error)
	// Lab is the command of a lab of its own process: it brings the system of a
	// Compose file up, says "up", and waits to be killed.
	Lab func(composeFile, dir string) []string
	// Left are what runs of the lab with a pid have left: names for people.
	Left func(t *testing.T, lab int) []string
	// Limits says whether the kernel holds services to their limits here.
	Limits bool
	// Cluster says that a cluster starts the services: one that is started again has
	// another address, of which it is warned, stop signals are those of the images, and volumes
	// last as long as the run.
	Cluster bool
}

// Build builds the suite's program and returns its file.
func Build(t *testing.T, dir string) string {
	t.Helper()
	source, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "loadstone/lab/driver/drivertest").Output()
	if err != nil {
		t.Fatalf("find the suite's program: %v", err)
	}
	file := filepath.Join(dir, topology.Self)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", file, "./testdata/program")
	cmd.Dir = strings.TrimSpace(string(source))
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the suite's program: %v: %s", err, said)
	}
	return file
}

// Run runs the suite.
func Run(t *testing.T, d Driver) {
	t.Helper()
	s := suite{d}
	t.Run("services start in order and stop in reverse", s.order)
	t.Run("volumes stay", s.volumes)
	t.Run("CPU limits are enforced", s.cpu)
	t.Run("CPU limits take hold when the system is up", s.cpuOnceUp)
	t.Run("memory limits are enforced and reported", s.memory)
	t.Run("a crash is reported once and not restarted", s.crash)
	t.Run("a deaf instance is killed", s.deaf)
	t.Run("killed and stopped instances are started again", s.again)
	t.Run("a paused instance neither answers nor refuses", s.pause)
	t.Run("a command runs in place of an instance", s.exec)
	t.Run("Down works from every state", s.downFromEveryState)
	t.Run("counters go on over the lives of an instance", s.watched)
	t.Run("Up fails with the reason", s.reasons)
	t.Run("a cancelled Up leaves nothing", s.cancelled)
	t.Run("a killed lab leaves nothing", s.killed)
}

type suite struct{ Driver }

// place is a directory that services may share, as $DIR in a Compose file.
func place(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir), filepath.Join(dir, "shared")} {
		if err := os.MkdirAll(d, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(d, 0o777); err != nil { // an image's user writes there
			t.Fatal(err)
		}
	}
	return dir
}

// file writes a Compose file. $IMAGE and $DIR in it are the driver's and the
// test's.
func (s suite) file(t *testing.T, dir, compose string) string {
	t.Helper()
	path := filepath.Join(dir, "compose.yaml")
	text := strings.NewReplacer("$DIR", dir, "$IMAGE", s.Image).Replace(compose)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (s suite) load(t *testing.T, dir, compose string) *topology.System {
	t.Helper()
	system, err := topology.Load(t.Context(), topology.Config{ComposeFiles: []string{s.file(t, dir, compose)}})
	if err != nil {
		t.Fatal(err)
	}
	return system
}

// up brings a system up and sees to it that Down leaves nothing.
func (s suite) up(t *testing.T, dir, compose string) driver.Running {
	t.Helper()
	r, err := s.Up(t.Context(), s.load(t, dir, compose), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.down(t, r) })
	return r
}

func (s suite) down(t *testing.T, r driver.Running) {
	t.Helper()
	if err := r.Down(context.WithoutCancel(t.Context())); err != nil {
		t.Errorf("down: %v", err)
	}
	s.wantNothingLeft(t, os.Getpid())
}

func (s suite) wantNothingLeft(t *testing.T, lab int) {
	t.Helper()
	var left []string
	poll(t, func() bool {
		left = s.Left(t, lab)
		return len(left) == 0
	}, func() { t.Errorf("there is left: %q", left) })
}

// poll asks until ok, for at most two minutes; then it calls late.
func poll(t *testing.T, ok func() bool, late func()) {
	t.Helper()
	pollFor(t, 2*time.Minute, ok, late)
}

func pollFor(t *testing.T, within time.Duration, ok func() bool, late func()) {
	t.Helper()
	for deadline := time.Now().Add(within); !ok(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			late()
			return
		}
	}
}

// lines are those of a file that services have written; none if there is none.
func lines(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

// wantLines wants those lines in a file, of which services may be writing the last.
func wantLines(t *testing.T, file string, want []string) {
	t.Helper()
	var got []string
	poll(t, func() bool { got = lines(t, file); return len(got) >= len(want) }, func() {})
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Listen listens on a port that is free again once this is closed: the kernel gives none that is so low to who asks
// for any.
func Listen(t *testing.T, host string) (l net.Listener, port string) {
	t.Helper()
	const lowest, highest, tries = 20_000, 32_000, 1000
	var config net.ListenConfig
	var err error
	for range tries {
		port = strconv.Itoa(lowest + rand.IntN(highest-lowest))
		if l, err = config.Listen(t.Context(), "tcp4", net.JoinHostPort(host, port)); err == nil {
			return l, port
		}
	}
	t.Fatal(err)
	return nil, ""
}

// startLab runs a lab as a process and waits until its system is up.
func (s suite) startLab(t *testing.T, composeFile, dir string) *exec.Cmd {
	t.Helper()
	argv := s.Lab(composeFile, dir)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL) // it may be dead already
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
		t.Fatalf("got %q, %v from the lab, want up", line, err)
	}
	return cmd
}
