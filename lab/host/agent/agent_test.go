package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"loadstone/lab/host"
	"loadstone/lab/host/cgroup"
	"loadstone/lab/host/cgroup/cgrouptest"
)

// The test binary is also the agent, its keeper, and what they watch.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if program, ok := programs[os.Args[1]]; ok {
			if err := program(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	os.Exit(m.Run())
}

// byAddress is an agent that finds who listens.
var byAddress = Config{Keeper: []string{os.Args[0], "keeper"}}

var programs = map[string]func() error{
	"agent": func() error { return Serve(context.Background(), os.Stdin, os.Stdout, byAddress) },
	"impatient": func() error {
		return serve(context.Background(), os.Stdin, os.Stdout, byAddress, patience{time.Hour, 20 * time.Second})
	},
	"unheard": func() error {
		return serve(context.Background(), os.Stdin, os.Stdout, byAddress, patience{time.Millisecond, time.Hour})
	},
	"of-a-pod": func() error {
		key, err := hex.DecodeString(os.Args[3])
		if err != nil {
			return err
		}
		return Serve(context.Background(), os.Stdin, os.Stdout, Config{Keeper: byAddress.Keeper, Containers: os.Args[2], Lab: key})
	},
	"other": func() error {
		wire = "another"
		return Serve(context.Background(), os.Stdin, os.Stdout, byAddress)
	},
	"kept-shortly": func() error {
		return Serve(context.Background(), os.Stdin, os.Stdout, Config{Keeper: []string{os.Args[0], "hasty-keeper"}})
	},
	// A lab that has an agent halve a limit, and then does nothing.
	"lab": func() error {
		link, cmd, err := command(context.Background(), []string{os.Args[0], "agent"}, os.Stderr)
		if err != nil {
			return err
		}
		r, err := Connect(context.Background(), "here", link)
		if err != nil {
			return err
		}
		if _, err := r.Find(context.Background(), []Wanted{{Name: "api-1", Address: os.Args[2], MayLimit: true}}); err != nil {
			return err
		}
		if err := r.Limit(context.Background(), "api-1", 0.5); err != nil {
			return err
		}
		fmt.Println(cmd.Process.Pid)
		time.Sleep(time.Hour)
		return nil
	},
	"keeper":       func() error { return Keep(os.Stdin, os.Stdout) },
	"hasty-keeper": func() error { return keepFor(os.Stdin, os.Stdout, 3*beatEvery) },
	"shim":         func() error { return cgroup.JoinAndExec(os.Args[2:], os.Environ()) },
	"listen": func() error {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		fmt.Println(l.Addr())
		end := make(chan os.Signal, 1)
		signal.Notify(end, syscall.SIGTERM)
		<-end
		return nil
	},
}

// listen starts a process that listens, in a control group with half a core, or in that of
// this test if there is none.
func listen(t *testing.T, group *cgroup.Group) (address string, pid int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "listen")
	if group != nil {
		if err := group.Enter(cmd, []string{os.Args[0], "shim"}); err != nil {
			t.Fatal(err)
		}
	}
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
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line), cmd.Process.Pid
}

// half is a control group with half a core.
func half(t *testing.T) *cgroup.Group {
	t.Helper()
	return cgrouptest.Group(t, cgroup.Limits{CPU: cgroup.Cores(0.5)})
}

func start(t *testing.T) *Remote {
	t.Helper()
	r, _ := startProcess(t)
	return r
}

// startProcess starts an agent that is this program, under a name that it has as one.
func startProcess(t *testing.T, program ...string) (*Remote, *os.Process) {
	t.Helper()
	if len(program) == 0 {
		program = []string{"agent"}
	}
	link, cmd, err := command(t.Context(), append([]string{os.Args[0]}, program...), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Connect(t.Context(), "here", link)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() }) // a test may have killed it
	return r, cmd.Process
}

func wantCores(t *testing.T, g *cgroup.Group, want float64) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		share, err := g.CPU()
		if err != nil {
			t.Fatal(err)
		}
		if share != nil && share.Cores == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("its limit is %+v, want %g cores", share, want)
		}
		<-time.After(time.Millisecond)
	}
}

func TestAnAgentFindsWatchesAndLimits(t *testing.T) {
	group := half(t)
	address, pid := listen(t, group)
	r := start(t)
	found, err := r.Find(t.Context(), []Wanted{{Name: "api-1", Address: address, MayLimit: true}, {Name: "gone-1", Address: "192.0.2.1:80"}})
	if err != nil {
		t.Fatal(err)
	}
	if f := found[0]; f.PID != pid || f.CPUs != 0.5 || f.Version == 0 || f.Unseen != "" || f.Note != "" {
		t.Errorf("got %+v, want process %d with half a core", f, pid)
	}
	if f := found[1]; !strings.Contains(f.Unseen, "not a machine that has the address") {
		t.Errorf("elsewhere: got %+v", f)
	}
	if m := r.Machine(); m.Cores < 1 || m.Kernel == "" {
		t.Errorf("got machine %+v", m)
	}
	var samples int
	ctx, cancel := context.WithCancel(t.Context())
	err = r.Watch(ctx, 100*time.Millisecond, func(s *host.Sample) error {
		if len(s.Instances) != 1 || s.Instances[0].Name != "api-1" || s.MachineTotal == 0 {
			t.Errorf("got %+v", s)
		}
		if samples++; samples == 3 {
			cancel()
		}
		return nil
	})
	if err != nil || samples < 3 {
		t.Errorf("%d samples, %v", samples, err)
	}
	if err := r.Limit(t.Context(), "api-1", 0.5); err != nil {
		t.Fatal(err)
	}
	wantCores(t, group, 0.25)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	wantCores(t, group, 0.5)
}

func TestOnlyWhatIsAllowedIsLimited(t *testing.T) {
	group := half(t)
	address, _ := listen(t, group)
	r := start(t)
	if _, err := r.Find(t.Context(), []Wanted{{Name: "api-1", Address: address}}); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"api-1", "unknown"} {
		if err := r.Limit(t.Context(), target, 0.5); !errors.Is(err, host.ErrUnsupported) {
			t.Errorf("%s: got %v, want host.ErrUnsupported", target, err)
		}
	}
	wantCores(t, group, 0.5)
}

func TestAKilledAgentLeavesNoLimit(t *testing.T) {
	group := half(t)
	address, _ := listen(t, group)
	r, p := startProcess(t)
	if _, err := r.Find(t.Context(), []Wanted{{Name: "api-1", Address: address, MayLimit: true}}); err != nil {
		t.Fatal(err)
	}
	if err := r.Limit(t.Context(), "api-1", 0.5); err != nil {
		t.Fatal(err)
	}
	wantCores(t, group, 0.25)
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	wantCores(t, group, 0.5)
	if err := r.Limit(t.Context(), "api-1", 0.5); err == nil {
		t.Error("a killed agent has answered")
	}
}

// So does a lab that is killed, alone or in the same moment as its agent.
func TestAKilledLabLeavesNoLimit(t *testing.T) {
	for name, withAgent := range map[string]bool{"alone": false, "with its agent": true} {
		t.Run(name, func(t *testing.T) {
			group := half(t)
			address, _ := listen(t, group)
			lab := exec.CommandContext(t.Context(), os.Args[0], "lab", address)
			out, err := lab.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := lab.Start(); err != nil {
				t.Fatal(err)
			}
			var pid int
			if _, err := fmt.Fscanln(out, &pid); err != nil {
				t.Fatal(err)
			}
			wantCores(t, group, 0.25)
			killed := time.Now()
			err = lab.Process.Kill()
			if withAgent {
				err = errors.Join(err, syscall.Kill(pid, syscall.SIGKILL))
			}
			if err != nil {
				t.Fatal(err)
			}
			wantCores(t, group, 0.5)
			t.Logf("the limit is back after %v", time.Since(killed))
			_ = lab.Wait() // it was killed
		})
	}
}

// What has no limit stands still for a part of the time, in which an agent may be killed as well.
func TestAKilledAgentLeavesNothingStanding(t *testing.T) {
	address, pid := listen(t, cgrouptest.Group(t, cgroup.Limits{}))
	r, p := startProcess(t)
	if _, err := r.Find(t.Context(), []Wanted{{Name: "api-1", Address: address, MayLimit: true}}); err != nil {
		t.Fatal(err)
	}
	if err := r.Limit(t.Context(), "api-1", 0.1); err != nil {
		t.Fatal(err)
	}
	wantState := func(stopped bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); (stateOf(pid) == 'T') != stopped; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("it is in state %c", stateOf(pid))
			}
		}
	}
	wantState(true)
	if err := errors.Join(p.Kill(), r.Close()); err == nil || !strings.Contains(err.Error(), "signal: killed") {
		t.Fatalf("got %v", err)
	}
	wantState(false)
}

// halt stops a process, and waits until all its threads stand still: those that run when the
// signal comes may answer once more.
func halt(t *testing.T, p *os.Process) {
	t.Helper()
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.Pid))
		if err != nil {
			t.Fatal(err)
		}
		moving := len(tasks) == 0
		for _, task := range tasks {
			text, err := os.ReadFile(task)
			if err != nil {
				t.Fatal(err)
			}
			_, state, _ := bytes.Cut(text, []byte(") "))
			moving = moving || !bytes.HasPrefix(state, []byte("T"))
		}
		if !moving {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("it does not stop")
		}
	}
}

// An agent that is stopped is given up once, with a reason, and leaves no limit.
func TestAStoppedAgentIsGivenUp(t *testing.T) {
	group := half(t)
	address, _ := listen(t, group)
	r, p := startProcess(t)
	if _, err := r.Find(t.Context(), []Wanted{{Name: "api-1", Address: address, MayLimit: true}}); err != nil {
		t.Fatal(err)
	}
	if err := r.Limit(t.Context(), "api-1", 0.5); err != nil {
		t.Fatal(err)
	}
	wantCores(t, group, 0.25)
	watched := make(chan error)
	go func() { watched <- r.Watch(t.Context(), time.Hour, func(*host.Sample) error { return nil }) }()
	halt(t, p)
	const want = "it has not answered for 10s: it is stopped"
	for range 100 { // of which the first waits
		if err := r.Limit(t.Context(), "api-1", 0.5); err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("got %v, want %s", err, want)
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := <-watched; err == nil {
		t.Error("watching a stopped agent has ended well")
	}
	wantCores(t, group, 0.5)
}

// limiting is an agent that this binary is, under a name, and that has halved a group's limit; with
// what it says.
func limiting(t *testing.T, program string) (cmd *exec.Cmd, client *rpc.Client, said *bytes.Buffer, group *cgroup.Group) {
	t.Helper()
	group = half(t)
	address, _ := listen(t, group)
	cmd, said = exec.CommandContext(t.Context(), os.Args[0], program), &bytes.Buffer{}
	in, errIn := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()
	cmd.Stderr = said
	if err := errors.Join(errIn, errOut, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	client = jsonrpc.NewClient(&pipes{out, in})
	var found []Found
	err := client.Call("Agent.Find", []Wanted{{Name: "api-1", Address: address, MayLimit: true}}, &found)
	if err == nil {
		err = client.Call("Agent.Limit", Change{"api-1", 0.5}, &struct{}{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return cmd, client, said, group
}

// Where nobody can kill a stopped agent, as on another machine, its keeper waits no longer for
// it. When it goes on it ends.
func TestAStoppedAgentIsReplacedByItsKeeper(t *testing.T) {
	cmd, client, said, group := limiting(t, "kept-shortly")
	halt(t, cmd.Process)
	wantCores(t, group, 0.5)
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(said.String(), "nothing was heard of the agent for 9s") {
		t.Errorf("it ended with %v and said %q", err, said.String())
	}
	wantCores(t, group, 0.5)
	_ = client.Close() // it has ended
}

// The input of an agent stays open when its lab is stopped or the connection is lost.
func TestAnAgentThatHearsNothingLeavesNoLimit(t *testing.T) {
	cmd, client, said, group := limiting(t, "impatient")
	wantCores(t, group, 0.5)
	if err := cmd.Wait(); err == nil || !strings.Contains(said.String(), "nothing was heard of the lab") {
		t.Errorf("it ended with %v and said %q", err, said.String())
	}
	_ = client.Close() // it has ended
}

// Who is never attached to, since its lab is lost before, ends by itself. Nobody starts it again.
func TestAnAgentThatIsNeverAttachedToEnds(t *testing.T) {
	cmd, said := exec.CommandContext(t.Context(), os.Args[0], "unheard"), &bytes.Buffer{}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = said
	if err := cmd.Run(); err == nil || !strings.Contains(said.String(), "nothing was heard of the lab") {
		t.Errorf("it ended with %v and said %q", err, said.String())
	}
	_ = in.Close() // it has ended
}

// Whoever is attached to a pod may write what they like; what is no line of JSON is not waited for.
func TestWhatIsNoLineOfJSONEndsTheAgent(t *testing.T) {
	for name, text := range map[string]string{
		"no end":   strings.Repeat("[", 2*mostInLine),
		"no JSON":  "hello\n",
		"no value": "{\"method\":\n\"Agent.Hello\"}\n",
	} {
		cmd, said := exec.CommandContext(t.Context(), os.Args[0], "agent"), &bytes.Buffer{}
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(in, text) // it may end before all is written
		if err := cmd.Wait(); err == nil || !strings.Contains(said.String(), "what comes is no line of JSON") {
			t.Errorf("%s: it ended with %v and said %q", name, err, said.String())
		}
		_ = in.Close() // it has ended
	}
}

// What a second lab takes for a limit must not be what the first has made of it.
func TestOneLabAtATimeChangesALimit(t *testing.T) {
	group := half(t)
	address, _ := listen(t, group)
	first, second := start(t), start(t)
	for _, r := range []*Remote{first, second} {
		if _, err := r.Find(t.Context(), []Wanted{{Name: "api-1", Address: address, MayLimit: true}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Limit(t.Context(), "api-1", 0.5); err != nil {
		t.Fatal(err)
	}
	for _, factor := range []float64{1, 0.5} {
		if err := second.Limit(t.Context(), "api-1", factor); err == nil || !strings.Contains(err.Error(), "another lab is changing") {
			t.Errorf("the second lab, factor %g: got %v", factor, err)
		}
	}
	wantCores(t, group, 0.25)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := second.Limit(t.Context(), "api-1", 0.5); err != nil {
		t.Fatal(err)
	}
	wantCores(t, group, 0.25)
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	wantCores(t, group, 0.5)
}

// A keeper restores what it knows, also when nobody reads its answers.
func TestAKeeperOutlivesItsReader(t *testing.T) {
	group := half(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "keeper")
	in, errIn := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()
	cmd.Stderr = os.Stderr
	if err := errors.Join(errIn, errOut, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	k := keeperPipe{cmd: cmd, pipe: in, answers: bufio.NewReader(out)}
	if err := errors.Join(k.await(), k.tell(group.Paths())); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(group.SetCPU(*cgroup.Cores(0.25)), out.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, "no JSON\n"); err != nil {
		t.Fatal(err)
	}
	if err := k.close(); err != nil {
		t.Error(err)
	}
	wantCores(t, group, 0.5)
}

func TestAnAgentOfAnotherVersionIsRefused(t *testing.T) {
	_, err := Start(t.Context(), "there", []string{os.Args[0], "other"}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "another version") {
		t.Errorf("got %v", err)
	}
}

// A limit holds for what is in the groups below as well.
func TestAGroupWithOthersBelowIsShared(t *testing.T) {
	group := half(t)
	address, pid := listen(t, group)
	below := filepath.Join(group.Paths().CPU, "below")
	if err := os.Mkdir(below, 0o755); err != nil {
		t.Fatal(err)
	}
	other := exec.CommandContext(t.Context(), "sleep", "1h")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	}()
	if err := os.WriteFile(filepath.Join(below, "cgroup.procs"), []byte(fmt.Sprint(other.Process.Pid)), 0); err != nil {
		t.Fatal(err)
	}
	found, err := start(t).Find(t.Context(), []Wanted{{Name: "api-1", Address: address, MayLimit: true}})
	if err != nil {
		t.Fatal(err)
	}
	if f := found[0]; f.PID != pid || f.Version != 0 || !strings.Contains(f.Note, "shares its control group") {
		t.Errorf("got %+v", f)
	}
}

func TestAProcessAmongOthersIsReadByItself(t *testing.T) {
	address, pid := listen(t, nil) // in the group of this test
	found, err := start(t).Find(t.Context(), []Wanted{{Name: "api-1", Address: address}})
	if err != nil {
		t.Fatal(err)
	}
	if f := found[0]; f.PID != pid || f.Version != 0 || !strings.Contains(f.Note, "shares its control group") {
		t.Errorf("got %+v", f)
	}
}

func TestAnAgentThatIsNoneIsAnError(t *testing.T) {
	for _, argv := range [][]string{{"/no/such/program"}, {"/bin/sh", "-c", "exit 1"}, {"/bin/sh", "-c", "echo hello"}} {
		if _, err := Start(t.Context(), "there", argv, io.Discard); err == nil || !strings.Contains(err.Error(), "start the agent on there") {
			t.Errorf("%q: got %v", argv, err)
		}
	}
}
