package agent

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"loadstone/lab/host"
	"loadstone/lab/host/cgroup"
	"loadstone/lab/host/cgroup/cgrouptest"
	"loadstone/lab/host/procstat"
)

// stateOf is the state of a process; 0 if it has ended.
func stateOf(pid int) byte {
	s, _ := procstat.Read("/proc", pid) // empty then
	return s.State
}

func TestAnAgentFindsContainersAndSignalsThem(t *testing.T) {
	group := half(t)
	_, pid := listen(t, group)
	root, id := cgrouptest.Container(t, group)
	r := start(t)
	found, err := r.Find(t.Context(), []Wanted{{Name: "api-1", Container: id, Groups: root}, {Name: "gone-1", Container: "gone", Groups: root}})
	if err != nil {
		t.Fatal(err)
	}
	if f := found[0]; f.PID != pid || f.CPUs != 0.5 || f.Unseen != "" {
		t.Errorf("got %+v, want process %d with half a core", f, pid)
	}
	if f := found[1]; !strings.HasPrefix(f.Unseen, "no control group of its container gone is below") {
		t.Errorf("got %+v", f)
	}
	if r.Boot() == "" || r.Boot() != host.Boot("/proc") {
		t.Errorf("got boot %q of this machine", r.Boot())
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = r.Watch(ctx, time.Millisecond, func(s *host.Sample) error {
		var st cgroup.Stat
		if err := group.Read(&st); err != nil {
			t.Error(err)
		}
		if in := s.Instances[0]; len(s.Instances) != 1 || in.Memory == 0 || in.CPU == 0 || in.CPU > st.CPU {
			t.Errorf("got %+v, and %+v of the group itself", s.Instances, st)
		}
		cancel()
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if cores, err := r.Share(t.Context(), "api-1"); err != nil || cores != 0.5 {
		t.Errorf("got %g cores, %v", cores, err)
	}
	wantSignalled := func(s syscall.Signal, want cgroup.Signalled) {
		t.Helper()
		if got, err := r.Signal(t.Context(), "api-1", s); err != nil || got != want {
			t.Errorf("%v: got %+v, %v, want %+v", s, got, err, want)
		}
	}
	wantSignalled(syscall.SIGSTOP, cgroup.Signalled{1, 1})
	for deadline := time.Now().Add(time.Minute); stateOf(pid) != 'T' && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	wantSignalled(syscall.SIGSTOP, cgroup.Signalled{}) // it stands still
	wantSignalled(syscall.SIGCONT, cgroup.Signalled{1, 0})
	wantSignalled(syscall.SIGKILL, cgroup.Signalled{1, 1})
	for deadline := time.Now().Add(time.Minute); stateOf(pid) != 'Z' && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	wantSignalled(syscall.SIGCONT, cgroup.Signalled{}) // it has ended
}

// What somebody else has started gets no signal, whatever a lab asks for.
func TestOnlyContainersAreSignalled(t *testing.T) {
	address, pid := listen(t, nil)
	r := start(t)
	if _, err := r.Find(t.Context(), []Wanted{{Name: "api-1", Address: address, MayLimit: true}}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"api-1", "unknown"} {
		if _, err := r.Signal(t.Context(), name, syscall.SIGKILL); !errors.Is(err, host.ErrUnsupported) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if state := stateOf(pid); state == 0 || state == 'Z' {
		t.Errorf("it is in state %c", state)
	}
}

func TestContainersAreNotFoundWithoutControlGroups(t *testing.T) {
	_, err := start(t).Find(t.Context(), []Wanted{{Name: "api-1", Container: "a", Groups: t.TempDir()}})
	if err == nil || !strings.Contains(err.Error(), "find instances on here: find the control groups of containers: ") {
		t.Errorf("got %v", err)
	}
}
