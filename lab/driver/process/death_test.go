package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"loadstone/lab/host/cgroup/cgrouptest"
)

// phases are systems that stay in one phase of Up until they are cancelled,
// and what shows that they have come there: a line in a log.
var phases = map[string]struct{ compose, log string }{
	"seeding": {`
services:
  other: {image: loadstone, command: [family]}
  seed: {image: loadstone, command: [family]}
  api: {image: loadstone, command: [sleep], depends_on: {seed: {condition: service_completed_successfully}}}
`, "seed-1.log"},
	"getting healthy": {`
services:
  api: {image: loadstone, command: [family], healthcheck: {test: [CMD, loadstone, check, $DIR/never]}}
`, "api-1.log"},
	"hanging in a health check": {`
services:
  api: {image: loadstone, command: [family], healthcheck: {test: [CMD-SHELL, "echo checking >>$DIR/logs/check.log; sleep 1000"]}}
`, "check.log"},
	"getting a port": {`
services:
  api: {image: loadstone, command: [family], expose: ["8080"]}
`, "api-1.log"},
}

func TestCancelInEveryPhaseLeavesNothing(t *testing.T) {
	for name, phase := range phases {
		for _, groups := range []bool{true, false} {
			t.Run(name+", groups "+strconv.FormatBool(groups), func(t *testing.T) {
				if groups {
					cgrouptest.Tree(t)
				}
				c := config(t, phase.compose)
				if !groups {
					c = withoutGroups(t, c)
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() {
					_, err := bringUp(ctx, c)
					done <- err
				}()
				eventually(t, "it gets to the phase", func() bool { return len(lines(t, filepath.Join(c.LogDir, phase.log))) > 0 })
				cancel()
				if err := <-done; !errors.Is(err, context.Canceled) {
					t.Errorf("got %v, want context.Canceled", err)
				}
				wantNothingLeft(t, os.Getpid(), "")
			})
		}
	}
	t.Run("before anything", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := bringUp(ctx, config(t, phases["getting a port"].compose)); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
		wantNothingLeft(t, os.Getpid(), "")
	})
}

// startLab runs a lab as a process, with the system of a Compose file.
func startLab(t *testing.T, c setup) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	text, err := json.Marshal(labConfig{filepath.Join(c.System.Dir, "compose.yaml"), c.LogDir, c.VolumeDir, c.SysRoot})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), os.Args[0], "lab", string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, bufio.NewReader(out)
}

const families = `
services:
  api: {image: loadstone, command: [family], deploy: {replicas: 2, resources: {limits: {cpus: "0.5"}}}}
  deaf: {image: loadstone, command: [deaf]}
`

func TestKillingTheLabEndsEverything(t *testing.T) {
	f := func(name, compose, log string, groups bool, processes int) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			if groups {
				cgrouptest.Tree(t)
			}
			c := config(t, compose)
			if !groups {
				c = withoutGroups(t, c)
			}
			lab, out := startLab(t, c)
			pid := lab.Process.Pid
			if log == "" {
				if line, err := out.ReadString('\n'); line != "up\n" {
					t.Fatalf("got %q, %v from the lab", line, err)
				}
			} else {
				eventually(t, "it gets to the phase", func() bool { return len(lines(t, filepath.Join(c.LogDir, log))) > 0 })
			}
			eventually(t, "all processes run", func() bool { return len(marked(pid, "")) >= processes })
			if groups && len(groupsOf(pid, "")) != 1 {
				t.Errorf("got groups %q, want the run's", groupsOf(pid, ""))
			}
			if err := lab.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			_ = lab.Wait()
			wantNothingLeft(t, pid, "")
			eventually(t, "the guardian has gone without a word", func() bool {
				_, err := os.Stat(filepath.Join(c.LogDir, "guardian.log"))
				return len(guardiansOf(c.LogDir)) == 0 && err == nil
			})
			if text, err := os.ReadFile(filepath.Join(c.LogDir, "guardian.log")); err != nil || len(text) > 0 {
				t.Errorf("the guardian said %q (%v)", text, err)
			}
			t.Logf("all gone after %v", time.Since(begin).Round(time.Millisecond))
		})
	}
	f("up, with groups", families, "", true, 5)
	f("up, without groups", families, "", false, 5)
	for name, phase := range phases {
		f(name+", with groups", phase.compose, phase.log, true, 2)
		f(name+", without groups", phase.compose, phase.log, false, 2)
	}
}

// guardiansOf are the guardians whose log is in dir.
func guardiansOf(dir string) []int {
	var pids []int
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), "internal-guardian") {
			continue
		}
		if target, _ := os.Readlink(filepath.Join(filepath.Dir(file), "fd", "2")); strings.HasPrefix(target, dir) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestWhatALabAndItsGuardianLeftIsSweptNextTime(t *testing.T) {
	cgrouptest.Tree(t)
	c := config(t, families)
	lab, out := startLab(t, c)
	if line, err := out.ReadString('\n'); line != "up\n" {
		t.Fatalf("got %q, %v from the lab", line, err)
	}
	for _, log := range []string{"api-1.log", "api-2.log"} {
		// Once they have written, the end of the pipe to the lab does not end them.
		eventually(t, "a family is complete", func() bool {
			return strings.Count(strings.Join(lines(t, filepath.Join(c.LogDir, log)), " "), "sleeping") == 2
		})
	}
	guardians := guardiansOf(c.LogDir)
	if len(guardians) != 1 {
		t.Fatalf("got guardians %v, want one", guardians)
	}
	if err := syscall.Kill(guardians[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := lab.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = lab.Wait()
	pid := lab.Process.Pid
	// The instances have died with the lab, their children have not; unless
	// the lab of another test that runs at the same time has swept them.
	eventually(t, "at most the children are left", func() bool { return len(marked(pid, "")) <= 2 })
	up(t, config(t, `services: {api: {image: loadstone, command: [sleep]}}`))
	wantNothingLeft(t, pid, "")
}

func TestALabThatIsAskedToStopsInOrder(t *testing.T) {
	c := config(t, shop)
	lab, out := startLab(t, c)
	if line, err := out.ReadString('\n'); line != "up\n" {
		t.Fatalf("got %q, %v from the lab", line, err)
	}
	if err := lab.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := lab.Wait(); err != nil {
		t.Errorf("got %v, want a clean end", err)
	}
	if got := lines(t, filepath.Join(c.System.Dir, "notes")); got[len(got)-1] != "stop_db_interrupt" {
		t.Errorf("got %q, want db stopped last", got)
	}
	wantNothingLeft(t, lab.Process.Pid, "")
}

func TestOwnerIsReadFromTheGroupsName(t *testing.T) {
	t.Parallel()
	name, err := runName("/proc", 7)
	if err != nil {
		t.Fatal(err)
	}
	p, ok := owner("/proc", name)
	if !ok || p.PID != os.Getpid() || !p.Alive("/proc") {
		t.Errorf("%s: got %+v, %v, want this process, alive", name, p, ok)
	}
	p.Start++
	if p.Alive("/proc") {
		t.Error("a process with another start time is taken for this one")
	}
	space := fmt.Sprint(pidSpace("/proc"))
	if _, ok := owner("/proc", "loadstone-1-2-"+space+"-3"); !ok || space == "0" {
		t.Errorf("a lab of the pid name space %s has no owner", space)
	}
	for _, other := range []string{
		"", "user.slice", "loadstone-", "loadstone-test-1-2-3", "loadstone-1-2", "loadstone-1-2-" + space, "loadstone-1-2-3-" + space + "-4",
		"loadstone-1-2-" + space + "-3 ", "loadstone-01-2-" + space + "-3",
		"loadstone-1-2-" + space + "1-3", // of another name space
	} {
		if p, ok := owner("/proc", other); ok {
			t.Errorf("%q: got %+v, want no owner", other, p)
		}
	}
}
