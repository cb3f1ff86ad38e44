package agent

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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

// watching is an agent in a pod, where the control groups of a machine are at root, and its lab's key.
func watching(t *testing.T, root string) (r *Remote, lab ed25519.PrivateKey) {
	t.Helper()
	public, lab, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	r, _ = startProcess(t, "of-a-pod", root, hex.EncodeToString(public))
	return r, lab
}

// gone is the id of a container that is not there.
var gone = strings.Repeat("0", 64)

func TestAnAgentFindsContainersAndSignalsThem(t *testing.T) {
	group, root, id := cgrouptest.Container(t, cgroup.Limits{CPU: cgroup.Cores(0.5)})
	_, pid := listen(t, group)
	r, lab := watching(t, root)
	found, err := r.Find(t.Context(), []Wanted{Wanted{Name: "api-1", Container: id, MayLimit: true}.Sealed(lab), Wanted{Name: "gone-1", Container: gone}.Sealed(lab)})
	if err != nil {
		t.Fatal(err)
	}
	if f := found[0]; f.PID != pid || f.CPUs != 0.5 || f.Unseen != "" {
		t.Errorf("got %+v, want process %d with half a core", f, pid)
	}
	if f := found[1]; !strings.HasPrefix(f.Unseen, "its container 000000000000 has no control group below ") {
		t.Errorf("got %+v", f)
	}
	if r.Boot() == "" || r.Boot() != host.Boot("/proc") {
		t.Errorf("got boot %q of this machine", r.Boot())
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = r.Watch(ctx, 100*time.Millisecond, func(s *host.Sample) error {
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
	if err := r.Limit(t.Context(), "api-1", 0.5); !errors.Is(err, host.ErrUnsupported) {
		t.Errorf("a limit that is the cluster's to change: got %v", err)
	}
	wantSignalled := func(s syscall.Signal, want cgroup.Signalled) {
		t.Helper()
		if got, err := r.Signal(t.Context(), "api-1", s); err != nil || got != want {
			t.Errorf("%v: got %+v, %v, want %+v", s, got, err, want)
		}
	}
	wantSignalled(syscall.SIGSTOP, cgroup.Signalled{Processes: 1, Moving: 1})
	for deadline := time.Now().Add(time.Minute); stateOf(pid) != 'T' && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	wantSignalled(syscall.SIGSTOP, cgroup.Signalled{}) // it stands still
	wantSignalled(syscall.SIGCONT, cgroup.Signalled{Processes: 1})
	wantSignalled(syscall.SIGKILL, cgroup.Signalled{Processes: 1, Moving: 1})
	for deadline := time.Now().Add(time.Minute); stateOf(pid) != 'Z' && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	wantSignalled(syscall.SIGCONT, cgroup.Signalled{}) // it has ended
}

// What is found by who listens gets no signal, whatever is asked for.
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

// Everybody who may attach to a pod can ask its agent, which is root on its node; so it does nothing to what its lab
// has not named.
func TestOnlyWhatTheLabHasNamedIsFound(t *testing.T) {
	group, root, id := cgrouptest.Container(t, cgroup.Limits{})
	address, pid := listen(t, group)
	r, lab := watching(t, root)
	_, other, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	api := Wanted{Name: "api-1", Container: id}
	changed := api.Sealed(lab)
	changed.MayLimit = true
	const named = "is not one that the lab of this agent has named"
	for name, c := range map[string]struct {
		wanted Wanted
		want   string
	}{
		"not signed":    {api, named},
		"of another":    {api.Sealed(other), named},
		"changed":       {changed, named},
		"a short id":    {Wanted{Name: "api-1", Container: id[:12]}.Sealed(lab), "is no id of a container"},
		"a path":        {Wanted{Name: "api-1", Container: "../" + id}.Sealed(lab), "is no id of a container"},
		"by an address": {Wanted{Name: "api-1", Address: address, MayLimit: true}.Sealed(lab), "is no id of a container"},
	} {
		if _, err := r.Find(t.Context(), []Wanted{c.wanted}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if _, err := r.Signal(t.Context(), "api-1", syscall.SIGKILL); !errors.Is(err, host.ErrUnsupported) {
			t.Errorf("%s: signal: got %v", name, err)
		}
		if err := r.Limit(t.Context(), "api-1", 0.5); !errors.Is(err, host.ErrUnsupported) {
			t.Errorf("%s: limit: got %v", name, err)
		}
	}
	if state := stateOf(pid); state == 0 || state == 'Z' {
		t.Errorf("it is in state %c", state)
	}
	if _, err := r.Find(t.Context(), []Wanted{api.Sealed(lab)}); err != nil {
		t.Error(err)
	}
}

func TestAnAgentOfAPodIsToldItsLab(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Config{
		"has to be told the key of its lab":             {Keeper: byAddress.Keeper, Containers: "/host/cgroup"},
		"has to be told where their control groups are": {Keeper: byAddress.Keeper, Lab: make(ed25519.PublicKey, ed25519.PublicKeySize)},
	} {
		if err := Serve(t.Context(), strings.NewReader(""), io.Discard, c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// node is where the control groups of a node are, which has groups with some files in them.
func node(t *testing.T, groups map[string]map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	put := func(text string, path ...string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(append([]string{root}, path...)...), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("cpu memory\n", "cgroup.controllers")
	for name, files := range groups {
		if err := os.Mkdir(filepath.Join(root, name), 0o700); err != nil {
			t.Fatal(err)
		}
		for file, text := range files {
			put(text, name, file)
		}
	}
	return root
}

// A container whose control group cannot be read keeps nobody from the others of its node.
func TestAContainerThatCannotBeRead(t *testing.T) {
	id := strings.Repeat("1", 64)
	r, lab := watching(t, node(t, map[string]map[string]string{id: {
		"cpu.stat": "usage_usec 1\nuser_usec 1\nsystem_usec 0\n", "memory.current": "1\n", "memory.events": "oom_kill 0\n", "cgroup.procs": "2\n", "cpu.max": "much\n",
	}}))
	found, err := r.Find(t.Context(), []Wanted{Wanted{Name: "api-1", Container: id}.Sealed(lab), Wanted{Name: "db-1", Container: gone}.Sealed(lab)})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"read the CPU share of control group", "has no control group below"} {
		if !strings.Contains(found[i].Unseen, want) {
			t.Errorf("got %+v, want %q", found[i], want)
		}
	}
}

// What others ask for is kept nowhere, and takes no place of what the lab does.
func TestNamesOfOthersAreNotKept(t *testing.T) {
	r, lab := watching(t, node(t, nil))
	for n := 0; n <= mostNames; n += 100 {
		var wanted []Wanted
		for i := range 100 {
			wanted = append(wanted, Wanted{Name: fmt.Sprintf("x-%d", n+i), Container: gone})
		}
		if _, err := r.Find(t.Context(), wanted); err == nil || !strings.Contains(err.Error(), "is not one that the lab") {
			t.Fatalf("got %v", err)
		}
	}
	if _, err := r.Find(t.Context(), []Wanted{Wanted{Name: "api-1", Container: gone}.Sealed(lab)}); err != nil {
		t.Error(err)
	}
}

// Of each name that it was asked for an agent keeps something.
func TestNamesAreBounded(t *testing.T) {
	r := start(t)
	for n := 0; ; n += 100 {
		var wanted []Wanted
		for i := range 100 {
			wanted = append(wanted, Wanted{Name: fmt.Sprintf("x-%d", n+i), Address: "192.0.2.1:80"})
		}
		_, err := r.Find(t.Context(), wanted)
		if n < mostNames && err != nil {
			t.Fatalf("%d names: %v", n, err)
		}
		if n >= mostNames {
			if err == nil || !strings.Contains(err.Error(), "watches 1000 instances at the most") {
				t.Errorf("%d names: got %v", n, err)
			}
			return
		}
	}
}

func TestContainersAreNotFoundWithoutControlGroups(t *testing.T) {
	r, lab := watching(t, t.TempDir())
	_, err := r.Find(t.Context(), []Wanted{Wanted{Name: "api-1", Container: gone}.Sealed(lab)})
	if err == nil || !strings.Contains(err.Error(), "find instances on here: find the control groups of containers: ") {
		t.Errorf("got %v", err)
	}
}
