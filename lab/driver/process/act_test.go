package process

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"loadstone/lab/driver"
	"loadstone/lab/driver/guardian"
	"loadstone/lab/host/cgroup/cgrouptest"
)

const pair = `
services:
  api:
    image: loadstone
    command: [serve, "${BIND_HOST:-0.0.0.0}:8080"]
    environment: {NAME: "api ${BIND_HOST}"}
    expose: ["8080"]
    stop_grace_period: 2m
    deploy: {replicas: 2, resources: {limits: {cpus: "0.5"}}}
`

// eachWay runs a test with control groups and without.
func eachWay(t *testing.T, compose string, f func(t *testing.T, r *Running, c setup)) {
	for _, groups := range []bool{true, false} {
		t.Run("groups "+strconv.FormatBool(groups), func(t *testing.T) {
			if groups {
				cgrouptest.Tree(t)
			}
			c := config(t, compose)
			if !groups {
				c = withoutGroups(t, c)
			}
			f(t, up(t, c), c)
		})
	}
}

func answers(host string) bool {
	client := http.Client{Timeout: 200 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get("http://" + host + ":8080/env")
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return true
}

func wantNoFailure(t *testing.T, r *Running) {
	t.Helper()
	select {
	case err := <-r.Failed():
		t.Errorf("an end that was asked for was reported: %v", err)
	default:
	}
}

func TestKilledAndStoppedInstancesComeBackOnTheirAddress(t *testing.T) {
	for name, end := range map[string]func(*Running, context.Context, string) error{"kill": (*Running).Kill, "stop": (*Running).Stop} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, pair, func(t *testing.T, r *Running, c setup) {
				before := r.Instances()[0]
				if err := end(r, t.Context(), "api-1"); err != nil {
					t.Fatal(err)
				}
				if answers(before.Host) || r.PID("api-1") != 0 {
					t.Errorf("api-1 still answers, or has pid %d", r.PID("api-1"))
				}
				eventually(t, "api-2, which did not go with it, answers", func() bool { return answers(r.Instances()[1].Host) })
				if err := end(r, t.Context(), "api-1"); err == nil {
					t.Error("it could be ended twice")
				}
				launched, err := r.Start(t.Context(), "api-1")
				if err != nil {
					t.Fatal(err)
				}
				after := r.Instances()[0]
				eventually(t, "api-1 answers again", func() bool { return answers(after.Host) })
				if after.Host != before.Host || after.PID == before.PID || after.PID != r.PID("api-1") {
					t.Errorf("got %+v after %+v, want another process at the same address", after, before)
				}
				if launched.After(after.ReadyAt) || !launched.After(before.ReadyAt) {
					t.Errorf("launched %v, ready %v", launched, after.ReadyAt)
				}
				if _, err := r.Start(t.Context(), "api-1"); err == nil {
					t.Error("what runs could be started again")
				}
				if log := strings.Join(lines(t, filepath.Join(c.LogDir, "api-1.log")), " "); !strings.Contains(log, "started") {
					t.Errorf("the log does not say that it was started again: %q", log)
				}
				wantNoFailure(t, r)
			})
		})
	}
}

// TestAnInstanceThatCameBackIsStillWatched has it die by itself afterwards.
func TestAnInstanceThatCameBackIsStillWatched(t *testing.T) {
	t.Parallel()
	r := up(t, config(t, pair))
	if err := r.Kill(t.Context(), "api-2"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Start(t.Context(), "api-2"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(r.PID("api-2"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-r.Failed():
		if !strings.Contains(err.Error(), "api-2 was killed by SIGKILL") {
			t.Errorf("got %v", err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("nobody noticed")
	}
	if err := r.Kill(t.Context(), "api-2"); err == nil {
		t.Error("an instance that failed was killed again")
	}
	if _, err := r.Start(t.Context(), "api-2"); err != nil {
		t.Errorf("an instance that failed cannot be started again: %v", err)
	}
}

// TestPausedInstancesNeitherAnswerNorRefuse pauses a process with a child in a
// session of its own.
func TestPausedInstancesNeitherAnswerNorRefuse(t *testing.T) {
	compose := strings.ReplaceAll(pair, "[serve,", "[serving-family,")
	eachWay(t, compose, func(t *testing.T, r *Running, _ setup) {
		in := r.instance("api-1")
		eventually(t, "it has a child", func() bool { ps, err := in.members(in.Life()); return err == nil && len(ps) >= 2 })
		if err := r.Pause(t.Context(), "api-1"); err != nil {
			t.Fatal(err)
		}
		members, err := in.members(in.Life())
		if err != nil || len(members) < 2 {
			t.Fatalf("got %v, %v", members, err)
		}
		for _, m := range members {
			if !m.Stopped {
				t.Errorf("process %d runs", m.PID)
			}
		}
		conn, err := (&net.Dialer{Timeout: time.Minute}).DialContext(t.Context(), "tcp", in.host+":8080")
		if err != nil {
			t.Errorf("it refuses: %v", err)
		} else {
			_ = conn.Close()
		}
		if answers(in.host) {
			t.Error("it answers")
		}
		if err := r.Resume(t.Context(), "api-1"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it answers again", func() bool { return answers(in.host) })
		wantNoFailure(t, r)
	})
}

// TestDownFromEveryState leaves one instance paused and one killed; up's
// clean-up looks for what is left.
func TestDownFromEveryState(t *testing.T) {
	eachWay(t, pair, func(t *testing.T, r *Running, _ setup) {
		if err := r.Pause(t.Context(), "api-1"); err != nil {
			t.Fatal(err)
		}
		if err := r.Kill(t.Context(), "api-2"); err != nil {
			t.Fatal(err)
		}
		down(t, r)
		if said := strings.Join(r.Warnings(), "\n"); strings.Contains(said, "did not end") {
			t.Errorf("got %q: a paused instance was not asked to stop", said)
		}
		if err := r.Pause(t.Context(), "api-1"); err == nil {
			t.Error("paused after Down")
		}
	})
}

// TestDownCutsShort has an instance that does not stop, and one that does not
// get ready.
func TestDownCutsShort(t *testing.T) {
	t.Parallel()
	r := up(t, config(t, `
services:
  deaf: {image: loadstone, command: [deaf], stop_grace_period: 300s}
  late:
    image: loadstone
    command: [sleep]
    healthcheck: {test: [CMD, loadstone, check, $DIR/compose.yaml], retries: 1000}
`))
	eventually(t, "deaf is", func() bool { return len(lines(t, r.instance("deaf-1").log.path)) > 0 })
	done := make(chan error, 2)
	go func() { done <- r.Stop(t.Context(), "deaf-1") }()
	if err := r.Kill(t.Context(), "late-1"); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(r.config.System.Dir, "compose.yaml")); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := r.Start(t.Context(), "late-1")
		done <- err
	}()
	eventually(t, "late is started", func() bool { return r.PID("late-1") != 0 })
	eventually(t, "deaf is being stopped", func() bool { return r.PID("deaf-1") == 0 })
	down(t, r)
	<-done
	<-done
}

func TestExecRunsACommandInPlaceOfAnInstance(t *testing.T) {
	t.Parallel()
	c := config(t, pair)
	r := up(t, c)
	said, err := r.Exec(t.Context(), "api-2", []string{"sh", "-c", "echo $$NAME ${API_HOST:-none} ${BIND_HOST}"}, time.Minute)
	hosts := r.Instances()
	if want := "api " + hosts[1].Host + " " + hosts[0].Host + " " + hosts[1].Host; err != nil || said != want {
		t.Errorf("got %q, %v; want %q", said, err, want)
	}
	if _, err := r.Exec(t.Context(), "api-1", []string{"false"}, time.Minute); err == nil {
		t.Error("a command that fails is no error")
	}
	if _, err := r.Exec(t.Context(), "api-1", []string{"sleep", "1000"}, 50*time.Millisecond); err == nil || !strings.Contains(err.Error(), "more than 50ms") {
		t.Errorf("got %v, want it to have taken too long", err)
	}
	for name, argv := range map[string][]string{"no program": {"there-is-no-such-program"}, "a bad variable": {"echo", "${"}, "nothing": {}} {
		if err := c.CheckFault(t.Context(), c.System, driver.Fault{Service: "api", Action: "exec", Command: argv}); err == nil {
			t.Errorf("%s: found in order", name)
		}
	}
	if err := c.CheckFault(t.Context(), c.System, driver.Fault{Service: "api", Action: "exec", Command: []string{"echo", "${API_HOST:-api}"}}); err != nil {
		t.Error(err)
	}
}

// TestKillingTheLabEndsWhatItPaused kills a lab that has one instance paused and
// one stopped.
func TestKillingTheLabEndsWhatItPaused(t *testing.T) {
	for _, groups := range []bool{true, false} {
		t.Run("groups "+strconv.FormatBool(groups), func(t *testing.T) {
			if groups {
				cgrouptest.Tree(t)
			}
			c := config(t, strings.ReplaceAll(pair, "[serve,", "[serving-family,"))
			if !groups {
				c = withoutGroups(t, c)
			}
			t.Setenv("PAUSE", "api-1")
			t.Setenv("KILL", "api-2")
			lab, out := startLab(t, c)
			if line, err := out.ReadString('\n'); line != "up\n" {
				t.Fatalf("got %q, %v from the lab", line, err)
			}
			if err := lab.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			_ = lab.Wait()
			wantNothingLeft(t, lab.Process.Pid, "")
		})
	}
}

func TestPostgresRecoversAfterItWasKilled(t *testing.T) {
	installed(t, "postgres")
	for _, groups := range []bool{true, false} {
		t.Run("groups "+strconv.FormatBool(groups), func(t *testing.T) {
			c := databaseConfig(t)
			if !groups {
				c = withoutGroups(t, c)
			}
			r := up(t, c)
			host, password := r.Instances()[0].Host, "s3cret '\""
			if out, err := query(t, host, password, "insert into dish values ('tea')"); err != nil {
				t.Fatal(out, err)
			}
			for _, end := range []func(*Running, context.Context, string) error{(*Running).Kill, (*Running).Stop} {
				if err := end(r, t.Context(), "db-1"); err != nil {
					t.Fatal(err)
				}
				if out, err := query(t, host, password, "select 1"); err == nil {
					t.Errorf("it answers %s after its end", out)
				}
				if _, err := r.Start(t.Context(), "db-1"); err != nil {
					t.Fatal(err)
				}
				if out, err := query(t, host, password, "select count(*) from dish"); err != nil || out != "3" {
					t.Errorf("got %s, %v; want 3 rows", out, err)
				}
			}
			if err := r.Pause(t.Context(), "db-1"); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			cmd := exec.CommandContext(ctx, "psql", "-h", host, "-U", "owner", "-d", "shop", "-Atc", "select 1")
			cmd.Env = append(os.Environ(), "PGPASSWORD="+password)
			if out, err := cmd.CombinedOutput(); err == nil {
				t.Errorf("it answers %s while it is paused", out)
			}
			if err := r.Resume(t.Context(), "db-1"); err != nil {
				t.Fatal(err)
			}
			if out, err := query(t, host, password, "select count(*) from dish"); err != nil || out != "3" {
				t.Errorf("got %s, %v; want 3 rows", out, err)
			}
			wantNoFailure(t, r)
		})
	}
}

func TestDescendants(t *testing.T) {
	t.Parallel()
	self, err := guardian.Identify("/proc", os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	found := func(root guardian.Process) (n int) {
		members, err := guardian.Descendants("/proc", root)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range members {
			if m.PID == child.Process.Pid || m.PID == self.PID {
				n++
			}
		}
		return n
	}
	if got := found(self); got != 2 {
		t.Errorf("got %d of this process and its child", got)
	}
	self.Start++
	if got := found(self); got != 0 {
		t.Errorf("got %d of another process with the same pid", got)
	}
}
