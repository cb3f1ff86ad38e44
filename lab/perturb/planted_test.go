package perturb

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"loadstone/lab/host"
	"loadstone/lab/host/cgroup"
	"loadstone/lab/host/cgroup/cgrouptest"
	"loadstone/lab/load"
	"loadstone/lab/load/generator"
)

// The test binary plays other parts when its first argument names one.
const (
	asGenerator = "play-generator"
	asShim      = "play-shim"
	asServer    = "play-server" // HASHES SLOTS SLEEP [NEXT]
)

func TestMain(m *testing.M) {
	role := ""
	if len(os.Args) > 1 {
		role = os.Args[1]
	}
	var err error
	switch role {
	case asGenerator:
		err = generator.Serve(context.Background(), os.Stdin, os.Stdout)
	case asShim:
		err = cgroup.JoinAndExec(os.Args[2:], os.Environ())
	case asServer:
		err = serve(os.Args[2:])
	default:
		goleak.VerifyTestMain(m)
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve answers on an address that it prints until its standard input ends.
// Each answer takes so many hashes of CPU, a sleep in one of so many slots, and
// then the answer of the next server, if there is one.
func serve(args []string) error {
	hashes, errHashes := strconv.Atoi(args[0])
	slots, errSlots := strconv.Atoi(args[1])
	sleep, errSleep := time.ParseDuration(args[2])
	for _, err := range []error{errHashes, errSlots, errSleep} {
		if err != nil {
			return err
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		os.Exit(0)
	}()
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	free := make(chan struct{}, slots)
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		work(hashes)
		if sleep > 0 {
			free <- struct{}{}
			time.Sleep(sleep) // what is planted, not a way to wait
			<-free
		}
		if len(args) > 3 {
			res, err := client.Get("http://" + args[3])
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
		_, _ = io.WriteString(w, "ok")
	})}
	return server.Serve(listener)
}

func work(hashes int) {
	sum := sha256.Sum256([]byte("x"))
	for range hashes {
		sum = sha256.Sum256(sum[:])
	}
}

// part is one component of a planted system. A share of 0 is no limit.
type part struct {
	cores  float64
	hashes int
	slots  int
	sleep  time.Duration
}

// start starts a part in a group of its own and returns its address.
func (p part) start(t *testing.T, tree *cgroup.Tree, name, next string) (*cgroup.Group, string) {
	t.Helper()
	limits := cgroup.Limits{}
	if p.cores > 0 {
		limits.CPU = cgroup.Cores(p.cores)
	}
	g, err := tree.Create(name, limits)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{asServer, strconv.Itoa(p.hashes), strconv.Itoa(max(p.slots, 1)), p.sleep.String()}
	if next != "" {
		args = append(args, next)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if err := g.Enter(cmd, []string{self, asShim}); err != nil {
		t.Fatal(err)
	}
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = input.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	address, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return g, strings.TrimSpace(address)
}

// knob is what a component of that share is perturbed by.
func (p part) knob(name string, g *cgroup.Group) Knob {
	machine := host.NewLocal(func() []host.Target { return []host.Target{{Name: name, Cgroup: g.Paths()}} })
	k := Share(name, []string{name}, machine.Limit)
	k.DownOnly = p.cores == 0
	return k
}

// planted is a system that runs, with a generator beside it.
type planted struct {
	name, limit string
	address     string
	generator   *generator.Process
	session     *Session
	budget      time.Duration
	slots       []Slot
	err         error
}

// plant starts a system of two.
func plant(t *testing.T, tree *cgroup.Tree, p *planted, front, store part) *planted {
	t.Helper()
	root := fmt.Sprintf("perturb-test-%d-%d", os.Getpid(), time.Now().UnixNano())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := cgroup.Destroy(ctx, tree.Paths(root)); err != nil {
			t.Error(err)
		}
	})
	storeGroup, storeAddress := store.start(t, tree, root+"/store", "")
	frontGroup, address := front.start(t, tree, root+"/front", storeAddress)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p.address = address
	p.generator, err = generator.Start(t.Context(), []string{self, asGenerator}, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	goFirst(t, tree, root, p.generator.PID())
	c := DefaultConfig()
	// Slots of one window: what is planted is even, so that few requests tell. A
	// session ends when its intervals are narrow, after some 12 s on a quiet
	// machine; on one that is not it may take its time.
	c.Budget, c.MaxWindows = time.Minute, 1
	p.budget = c.Budget
	p.session = NewSession(c, []Knob{front.knob("front", frontGroup), store.knob("store", storeGroup)})
	return p
}

// goFirst has the kernel prefer a system and its generator to everything else on
// the machine, such as the tests of other packages: to those it is as if the
// machine were a quarter smaller.
func goFirst(t *testing.T, tree *cgroup.Tree, root string, generator int) {
	t.Helper()
	g, err := tree.Create(root+"/generator", cgroup.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	file, most := "cpu.shares", "262144"
	if tree.Version() == 2 {
		file, most = "cpu.weight", "10000"
	}
	err = errors.Join(
		os.WriteFile(filepath.Join(tree.Paths(root).CPU, file), []byte(most), 0),
		os.WriteFile(filepath.Join(g.Paths().CPU, "cgroup.procs"), []byte(strconv.Itoa(generator)), 0),
		g.Close(),
	)
	if err != nil {
		t.Fatal(err)
	}
}

// perturb offers load, perturbs both, and ends the generator.
func (p *planted) perturb(ctx context.Context) {
	var failed error
	_, err := p.generator.Run(ctx, load.Plan{
		Targets: []string{"http://" + p.address}, Seed: 1, Warmup: time.Second, Timeout: 10 * time.Second,
		Scenarios: []load.Scenario{{
			Name: "closed", Executor: load.ConstantVUs, VUs: 32, Duration: p.budget + 3*time.Second, GracefulStop: 5 * time.Second,
			Steps: []load.Step{{Request: load.Request{Method: http.MethodGet, Path: "/"}}},
		}},
	}, func(w load.Window) (stop string) {
		stop, failed = p.session.Window(ctx, w)
		return stop
	})
	p.slots = p.session.Slots()
	p.err = errors.Join(err, failed, p.session.Close(ctx), p.generator.Close())
}

// A machine that does something else meanwhile, such as the tests of other packages,
// is no fault of the witness: it may try three times.
func TestPlantedLimitsAreFound(t *testing.T) {
	tree := cgrouptest.Tree(t)
	var problems []string
	for range 3 {
		if problems = tryPlanted(t, tree); len(problems) == 0 {
			return
		}
		t.Logf("not this time: %s", strings.Join(problems, "; "))
	}
	t.Error(strings.Join(problems, "; "))
}

// tryPlanted returns what was found wrongly. The three run at once: together they use
// under a core, so that each has what it would have alone.
func tryPlanted(t *testing.T, tree *cgroup.Tree) (problems []string) {
	t.Helper()
	slow, fast := part{cores: 0.2, hashes: 1500}, part{cores: 0.5, hashes: 100}
	systems := []*planted{
		plant(t, tree, &planted{name: "the front limits", limit: "front"}, slow, fast),
		plant(t, tree, &planted{name: "the store limits", limit: "store"}, fast, slow),
		plant(t, tree, &planted{name: "nobody limits: it sleeps"}, part{hashes: 10}, part{hashes: 10, slots: 8, sleep: 40 * time.Millisecond}),
	}
	var all sync.WaitGroup
	began, used := time.Now(), ownCPU(t)
	for _, p := range systems {
		all.Go(func() { p.perturb(t.Context()) })
	}
	all.Wait()
	cost := (ownCPU(t) - used).Seconds() / time.Since(began).Seconds() / float64(runtime.NumCPU()) / float64(len(systems))
	t.Logf("perturbing one system took %.2f %% of the machine", 100*cost)
	if cost > 0.02 {
		problems = append(problems, fmt.Sprintf("perturbing took %.2f %% of the machine, want 2 %% or less", 100*cost))
	}
	for _, p := range systems {
		for _, text := range p.problems(t) {
			problems = append(problems, p.name+": "+text)
		}
	}
	return problems
}

// ownCPU is what this process, which sets the knobs, has used.
func ownCPU(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// problems judges with an allowance: an interval misses the truth one time in
// twenty, and the machine's neighbours add to that. Where time was up before the
// interval was as narrow as is asked for, what limits has to be above 0 only.
func (p *planted) problems(t *testing.T) (out []string) {
	t.Helper()
	const allowance = 0.2
	if p.err != nil {
		t.Fatal(p.err)
	}
	found := Estimate(p.slots)
	if len(found) != 2 {
		return append(out, fmt.Sprintf("%d slots gave %v, want the elasticities of two", len(p.slots), found))
	}
	for _, e := range found {
		component, x := e.Targets[0].Component, e.Throughput
		t.Logf("%s: %.2f (%.2f to %.2f), p95 %.2f (%.2f to %.2f), %d blocks in %d slots of about %.0f req/s",
			component, x.Value, x.Low, x.High, e.P95.Value, e.P95.Low, e.P95.High, e.Blocks, len(p.slots), p.slots[0].Throughput())
		want := 0.5
		if x.High-x.Low > 2*DefaultConfig().Narrow {
			want = 0
		}
		if component == p.limit && (x.Low <= want || x.Value <= 0.5) {
			out = append(out, fmt.Sprintf("%s limits, and its elasticity is %.2f to %.2f, want above %.1f", component, x.Low, x.High, want))
		}
		if component != p.limit && (x.Low > allowance || x.High < -allowance || x.Value > 0.5) {
			out = append(out, fmt.Sprintf("%s does not limit, and its elasticity is %.2f to %.2f, want about 0", component, x.Low, x.High))
		}
	}
	return out
}
