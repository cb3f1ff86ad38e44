package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"loadstone/lab/driver"
	"loadstone/lab/driver/guardian"
	"loadstone/lab/host"
	"loadstone/lab/host/cgroup"
	"loadstone/lab/topology"
)

// spinning has two instances with a quarter of a core, and one without a limit.
const spinning = `
services:
  api: {image: loadstone:drivertest, command: [spin], deploy: {replicas: 2, resources: {limits: {cpus: "0.25", memory: 64M}}}}
  free: {image: loadstone:drivertest, command: [spin]}
`

// byAgents brings a system up in the cluster that agents watch, though its nodes are this machine.
func byAgents(t *testing.T) *Running {
	t.Helper()
	d := clusterDriver()
	d.Env[AgentVariable] = topology.Self
	up, err := d.Up(t.Context(), driver.Config{System: system(t, spinning), LogDir: filepath.Join(t.TempDir(), "logs")})
	if err != nil {
		t.Fatal(err)
	}
	r := up.(*Running)
	t.Cleanup(func() {
		if err := r.Down(context.Background()); err != nil {
			t.Error(err)
		}
		_, err := r.cluster.CoreV1().Namespaces().Get(context.Background(), r.name, metav1.GetOptions{})
		if err == nil {
			t.Errorf("name space %s is left", r.name)
		}
	})
	return r
}

// directly opens the control group of an instance, as it is seen on this machine.
func (r *Running) directly(t *testing.T, name string) *cgroup.Group {
	t.Helper()
	pod, _ := r.byName[name].seen()
	c, ok := started(pod)
	if !ok {
		t.Fatalf("%s has not started", name)
	}
	_, id, _ := strings.Cut(c.ContainerID, "://")
	pid, err := oldest("/proc", id)
	if err != nil || pid == 0 {
		t.Fatalf("process %d, %v", pid, err)
	}
	group, err := cgroup.Of("/proc", "/", pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = group.Close() })
	return group
}

// within waits until something is so.
func within(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within two minutes: %s", what)
		}
	}
}

// What agents tell is what the control groups say, and they change and signal what has to be.
func TestClusterAgentsReadWhatIsSeenHere(t *testing.T) {
	inCluster(t)
	r := byAgents(t)
	for _, w := range r.Warnings() {
		if !strings.HasPrefix(w, "the clock of node ") && !strings.Contains(w, " could write the control groups of its node") { // of version 1
			t.Errorf("got warning %q", w)
		}
	}
	if len(r.Hosts()) != 1 || r.agents == nil || len(r.agents.all) != 2 {
		t.Fatalf("got hosts %v, want agents on two nodes", r.Hosts())
	}
	h := r.Hosts()[0]
	r.wantSame(t, h)

	api, free := r.directly(t, "api-1"), r.directly(t, "free-1")
	for _, factor := range []float64{0.5, 1} {
		if err := h.Limit(t.Context(), "api-1", factor); err != nil {
			t.Fatal(err)
		}
		if share, err := api.CPU(); err != nil || share == nil || math.Abs(share.Cores-factor*0.25) > 1e-3 {
			t.Errorf("%g of its CPU: got a share of %+v, %v", factor, share, err)
		}
	}
	if err := h.Limit(t.Context(), "free-1", 0.5); err != nil {
		t.Fatal(err)
	}
	within(t, "what has no limit is slowed down", func() bool { return r.still(t, free) })
	if err := h.Limit(t.Context(), "free-1", 1); err != nil {
		t.Fatal(err)
	}
	if err := r.Pause(t.Context(), "api-1"); err != nil || !r.still(t, api) {
		t.Errorf("pause: %v, and it stands still: %v", err, r.still(t, api))
	}
	if err := r.Resume(t.Context(), "api-1"); err != nil || r.still(t, api) {
		t.Errorf("resume: %v, and it stands still: %v", err, r.still(t, api))
	}
	if err := r.Kill(t.Context(), "api-2"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Start(t.Context(), "api-2"); err != nil {
		t.Fatal(err)
	}
	if said := strings.Join(r.Warnings(), "\n"); strings.Contains(said, "not killed") || strings.Contains(said, "not seen") {
		t.Errorf("got warnings\n%s", said)
	}
	r.wantSame(t, h)
}

// still says whether all of a group stands still.
func (r *Running) still(t *testing.T, g *cgroup.Group) bool {
	t.Helper()
	pids, err := g.Procs()
	if err != nil {
		t.Fatal(err)
	}
	all := guardian.Members("/proc", pids)
	return len(all) > 0 && !slices.ContainsFunc(all, func(m guardian.Member) bool { return !m.Stopped })
}

// wantSame wants samples to have of each instance what its control group says. An agent's sample is older than what
// is read when it comes, by no more than all cores can use meanwhile.
func (r *Running) wantSame(t *testing.T, h host.Host) {
	t.Helper()
	groups := map[string]*cgroup.Group{}
	for _, in := range r.Instances() {
		groups[in.Name] = r.directly(t, in.Name)
	}
	const near, least = 0.03, time.Second
	said := make([]string, len(groups))
	cores := float64(h.Machine().Cores)
	enough := errors.New("enough")
	began := time.Now()
	err := h.Watch(t.Context(), 100*time.Millisecond, func(s *host.Sample) error {
		same := len(s.Instances) == len(groups)
		for i := range s.Instances {
			in := &s.Instances[i]
			var direct cgroup.Stat
			if err := groups[in.Name].Read(&direct); err != nil {
				return err
			}
			late := time.Duration(float64(time.Since(s.At)+5*time.Millisecond) * cores)
			if in.CPU > direct.CPU+5*time.Millisecond || direct.CPU-in.CPU > late || in.Periods > direct.Periods || in.Memory == 0 {
				t.Errorf("got %+v, and %+v of the control group, which was read later by at most %v of CPU", *in, direct, late)
			}
			differs := (direct.CPU - in.CPU).Seconds() / direct.CPU.Seconds()
			same = same && direct.CPU > least && differs < near && direct.Memory > 0
			said[i%len(said)] = fmt.Sprintf("%s: %.3f s of CPU by its agent, %.3f s by its control group (%.1f %%), throttled in %d and %d periods",
				in.Name, in.CPU.Seconds(), direct.CPU.Seconds(), 100*differs, in.Throttled, direct.ThrottledPeriods)
		}
		switch {
		case same:
			t.Log(strings.Join(said, "; "))
			return enough
		case time.Since(began) > 2*time.Minute:
			return errors.New("for two minutes nothing was the same")
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
}

// Where pod security refuses agents, the system is up all the same.
func TestClusterAgentsThatPodSecurityRefuses(t *testing.T) {
	inCluster(t)
	c, err := connect(clusterDriver().Env)
	if err != nil {
		t.Fatal(err)
	}
	labelled := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	go func() { labelled <- guardNext(ctx, c) }()
	r := byAgents(t)
	if err := <-labelled; err != nil {
		t.Fatal(err)
	}
	const want = "what pods use cannot be seen from here, so no bottleneck is named by its CPU: LOADSTONE_KUBE_AGENT asks for agents; and no agent there tells it (LOADSTONE_KUBE_AGENT names its image): the cluster's pod security refuses it (\"baseline:latest\""
	if said := r.Warnings(); len(said) != 1 || !strings.HasPrefix(said[0], want) || len(r.Hosts()) != 0 {
		t.Errorf("got warnings %q and hosts %v", said, r.Hosts())
	}
}

// guardNext has the next name space of a run have the level baseline.
func guardNext(ctx context.Context, c *cluster) error {
	w, err := c.CoreV1().Namespaces().Watch(ctx, metav1.ListOptions{LabelSelector: managerLabel + "=" + topology.Self})
	if err != nil {
		return err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if ns, ok := e.Object.(*corev1.Namespace); ok && e.Type == "ADDED" {
			patch := []byte(`{"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}`)
			_, err := c.CoreV1().Namespaces().Patch(ctx, ns.Name, types.MergePatchType, patch, metav1.PatchOptions{})
			return err
		}
	}
	return errors.New("there was no name space")
}
