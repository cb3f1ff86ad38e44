package main

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"loadstone/lab/host/procstat"
)

// The test binary is also the command.
func TestMain(m *testing.M) {
	if os.Getenv("LEFTOVERS_TEST") != "" {
		os.Exit(run(os.Args[1:]))
	}
	os.Exit(m.Run())
}

func TestWhatIsLeftIsFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		status int
		want   []string // in its words; "" for nothing
	}{
		"nothing":              {"true", 0, nil},
		"the program fails":    {"exit 3", 3, nil},
		"it is killed":         {"kill -9 $$", 137, []string{"killed"}},
		"a file":               {"touch $TMPDIR/f", 1, []string{"/t/f"}},
		"a directory":          {"mkdir -p $TMPDIR/d/e", 1, []string{"/t/d\n"}},
		"state":                {"mkdir $XDG_STATE_HOME/loadstone", 1, []string{"/s/loadstone"}},
		"a process":            {"sleep 1000 &", 1, []string{": sleep 1000"}},
		"a process in hiding":  {"env -i setsid sh -c 'sleep 1001 & exec sleep 1002' >/dev/null 2>&1 &", 1, []string{": sleep 1001", ": sleep 1002"}},
		"one that ends itself": {"sleep 0.1 &", 0, nil},
		"failure and a file":   {"touch $TMPDIR/f; exit 3", 3, []string{"/t/f"}},
		"an orphan is waited for": {`
			sh -c 'sleep 0.1 & echo $!' >$TMPDIR/pid; pid=$(cat $TMPDIR/pid); rm $TMPDIR/pid
			while kill -0 $pid 2>/dev/null; do sleep 0.01; done`, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "sh", "-c", c.script)
			cmd.Env = append(os.Environ(), "LEFTOVERS_TEST=1")
			var said strings.Builder
			cmd.Stderr = &said
			_ = cmd.Run() // its status is looked at
			if got := cmd.ProcessState.ExitCode(); got != c.status {
				t.Errorf("got status %d, want %d: %s", got, c.status, &said)
			}
			for _, want := range c.want {
				if !strings.Contains(said.String(), want) {
					t.Errorf("got %q, want %q in it", &said, want)
				}
			}
			if len(c.want) == 0 && said.Len() > 0 {
				t.Errorf("got %q, want nothing", &said)
			}
		})
	}
}

func TestWhatIsLeftOnTheMachineIsFound(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	for name, c := range map[string]struct {
		script string
		status int
		want   string // in its words; "" for nothing
	}{
		"nothing":            {"true", 0, ""},
		"the program fails":  {"exit 3", 3, ""},
		"a file":             {"touch $TMPDIR/f", 1, "/f\n"},
		"another's file":     {"touch " + outside + "/f", 0, ""},
		"a mount":            {"mkdir $TMPDIR/m; mount -t tmpfs none $TMPDIR/m", 1, "the mount"},
		"removed in the end": {"touch $TMPDIR/f; rm $TMPDIR/f", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if strings.Contains(c.script, "mount") && os.Getuid() != 0 {
				t.Skip("only root can mount")
			}
			cmd := exec.CommandContext(t.Context(), "unshare", "--mount", os.Args[0], "-machine", "sh", "-c", c.script)
			if os.Getuid() != 0 {
				cmd.Path, cmd.Args = os.Args[0], cmd.Args[2:]
			}
			cmd.Env = append(os.Environ(), "LEFTOVERS_TEST=1", "TMPDIR="+t.TempDir())
			var said strings.Builder
			cmd.Stderr = &said
			_ = cmd.Run() // its status is looked at
			if got := cmd.ProcessState.ExitCode(); got != c.status {
				t.Errorf("got status %d, want %d: %s", got, c.status, &said)
			}
			if c.want == "" && said.Len() > 0 || !strings.Contains(said.String(), c.want) {
				t.Errorf("got %q, want %q in it", &said, c.want)
			}
		})
	}
}

func TestGroupsOfAnotherSuite(t *testing.T) {
	t.Parallel()
	here, gone := os.Getpid(), 1<<30 // no process has as high a pid
	self, err := procstat.Read("/proc", here)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		fmt.Sprintf("loadstone-test-%d-testx", here):             true,
		fmt.Sprintf("loadstone-test-v2-%d", here):                true,
		fmt.Sprintf("loadstone-test-limits-%d", here):            true,
		fmt.Sprintf("loadstone-test-%d-testx", gone):             false,
		fmt.Sprintf("perturb-test-%d-123", here):                 true,
		fmt.Sprintf("perturb-test-%d-123", gone):                 false,
		fmt.Sprintf("loadstone-%d-%d-4-123", here, self.Start):   true,
		fmt.Sprintf("loadstone-%d-%d-4-123", here, self.Start+1): false, // the pid is somebody else's now
		fmt.Sprintf("loadstone-%d-testx", here):                  false,
	} {
		if got := anothers(name); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

func TestGroupsOfADaemonThatRuns(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--cgroup-parent", "/%s"}, {"--cgroup-parent=/%s"}, {"--cgroup-parent"}} {
		group := "lsdocker." + rand.Text()
		args[len(args)-1] = strings.ReplaceAll(args[len(args)-1], "%s", group)
		cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-c", "read x", "dockerd"}, args...)...)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if got, want := anothers(group), strings.HasSuffix(args[len(args)-1], group); got != want {
			t.Errorf("%q: got %v, want %v", args, got, want)
		}
		_ = in.Close()
		_ = cmd.Wait() // it reads nothing, which is its status
		if anothers(group) {
			t.Errorf("%q: the group is still said to be another's", args)
		}
	}
}
