package kubernetes

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"loadstone/lab/driver"
	"loadstone/lab/driver/guardian"
	"loadstone/lab/host"
	"loadstone/lab/host/agent"
	"loadstone/lab/host/cgroup"
	"loadstone/lab/host/cgroup/cgrouptest"
)

func TestThePodOfAnAgent(t *testing.T) {
	t.Parallel()
	text, err := yaml.Marshal(agentPod("loadstone-1-2-abcdef01", corev1.Container{Image: "registry.example/loadstone:1", ImagePullPolicy: corev1.PullIfNotPresent}, "node1", 1, bytes.Repeat([]byte{1}, ed25519.PublicKeySize)))
	if err != nil {
		t.Fatal(err)
	}
	wantGolden(t, "agents", append([]byte("---\n"), text...))
}

// watching has the world have an agent wherever a pod of one is, which it starts as the pod says, but for where
// control groups are.
func (w *world) watching(groupsDir string) (serving *atomic.Int32) {
	w.agent, serving = "", &atomic.Int32{}
	w.attachTo = func(ctx context.Context, namespace, name string, s streams) error {
		serving.Add(1)
		defer serving.Add(-1)
		pod, err := w.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		args := pod.Spec.Containers[0].Args
		if want := []string{"internal", "agent", "--containers", "/host/cgroup", "--lab"}; !slices.Equal(args[:len(args)-1], want) {
			w.t.Errorf("got %q, want %q and a key", args, want)
		}
		lab, err := hex.DecodeString(args[len(args)-1])
		if err != nil {
			return err
		}
		return agent.Serve(ctx, s.in, s.out, agent.Config{Keeper: []string{os.Args[0], "keeper"}, Containers: groupsDir, Lab: lab})
	}
	return serving
}

// sleeper is a process in the control group of a container.
func sleeper(t *testing.T) (group *cgroup.Group, pid int, root, id string) {
	t.Helper()
	group, root, id = cgrouptest.Container(t, cgroup.Limits{})
	cmd := exec.CommandContext(t.Context(), "sleep", "1h")
	if err := group.Enter(cmd, []string{os.Args[0], "shim"}); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	// It is in the group before it is what sleeps.
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", cmd.Process.Pid))
		if err == nil && string(name) == "sleep\n" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("it does not sleep: it is %q, %v", name, err)
		}
	}
	if pids, err := group.Procs(); err != nil || !slices.Contains(pids, cmd.Process.Pid) {
		t.Fatalf("got processes %v, %v of its group, want %d", pids, err, cmd.Process.Pid)
	}
	return group, cmd.Process.Pid, root, id
}

// sampled is one sample of a host.
func sampled(t *testing.T, h host.Host) *host.Sample {
	t.Helper()
	var sample *host.Sample
	enough := errors.New("enough")
	err := h.Watch(t.Context(), time.Millisecond, func(s *host.Sample) error {
		sample = s
		return enough
	})
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
	return sample
}

// What an agent does not find is unseen, and the rest is not.
func TestAgentsFindSomePods(t *testing.T) {
	t.Parallel()
	_, _, root, id := sleeper(t)
	api, db := running(), running()
	api.ContainerStatuses[0].ContainerID = "containerd://" + id
	db.ContainerStatuses[0].ContainerID = "containerd://" + strings.Repeat("0", 64)
	w := newWorld(t, map[string]corev1.PodStatus{"api": api, "db": db})
	serving := w.watching(root)
	up, err := w.up(t.Context(), system(t, `services: {api: {image: shop}, db: {image: shop}}`))
	if err != nil {
		t.Fatal(err)
	}
	if said := strings.Join(up.Warnings(), "\n"); !strings.Contains(said, "db-1 is not seen but for its metrics: ") || strings.Contains(said, "api-1") {
		t.Errorf("got warnings %s", said)
	}
	for _, in := range up.Instances() {
		if in.Unseen != (in.Service == "db") {
			t.Errorf("%s: unseen: %v", in.Name, in.Unseen)
		}
	}
	if err := up.Down(context.Background()); err != nil || serving.Load() != 0 {
		t.Errorf("got %v, and %d agents still run", err, serving.Load())
	}
}

// An agent reads a pod's control group and pauses the pod, and finds it again when it was started again.
func TestAgentsWatchPodsOfOtherMachines(t *testing.T) {
	t.Parallel()
	group, pid, root, id := sleeper(t)
	api := running()
	api.ContainerStatuses[0].ContainerID = "containerd://" + id
	w := newWorld(t, map[string]corev1.PodStatus{"api": api})
	serving := w.watching(root)
	up, err := w.up(t.Context(), system(t, `services: {api: {image: shop}}`))
	if err != nil {
		t.Fatal(err)
	}
	r := up.(*Running)
	if said := r.Warnings(); len(said) != 2 || !strings.HasPrefix(said[0], "the agent on node node1 could write the control groups") || !strings.HasPrefix(said[1], "the clock of node node1 is ahead by ") {
		t.Errorf("got warnings %q", said)
	}
	if hosts := r.Hosts(); len(hosts) != 1 || hosts[0].Machine().Cores < 1 {
		t.Fatalf("got hosts %v", hosts)
	}
	wantRead := func() {
		t.Helper()
		var before, after cgroup.Stat
		errBefore := group.Read(&before)
		s := sampled(t, r.Hosts()[0])
		errAfter := group.Read(&after)
		if err := errors.Join(errBefore, errAfter); err != nil {
			t.Fatal(err)
		}
		if in := s.Instances[0]; len(s.Instances) != 1 || in.Name != "api-1" || in.CPU < before.CPU || in.CPU > after.CPU || in.Memory == 0 || s.MachineTotal == 0 || s.Slow == nil {
			t.Errorf("got %+v between %v and %v of the control group", s, before.CPU, after.CPU)
		}
	}
	wantRead()
	pod, err := w.CoreV1().Pods(r.name).Get(t.Context(), "loadstone-1-agent", metav1.GetOptions{})
	if err != nil || len(pod.OwnerReferences) != 1 || pod.Spec.Containers[0].ImagePullPolicy != corev1.PullNever {
		t.Errorf("got %+v, %v, want an image that is not pulled, and an owner", pod, err)
	}
	stopped := func() bool {
		all := guardian.Members("/proc", []int{pid})
		return len(all) == 1 && all[0].Stopped
	}
	if err := r.Pause(t.Context(), "api-1"); err != nil || !stopped() {
		t.Errorf("pause: %v, and it stands still: %v", err, stopped())
	}
	if err := r.Resume(t.Context(), "api-1"); err != nil || stopped() {
		t.Errorf("resume: %v, and it stands still: %v", err, stopped())
	}
	for _, factor := range []float64{0.5, 1} { // it has no limit, so that it is slowed down
		if err := r.Hosts()[0].Limit(t.Context(), "api-1", factor); err != nil {
			t.Error(err)
		}
	}
	if err := r.Stop(t.Context(), "api-1"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Start(t.Context(), "api-1"); err != nil {
		t.Fatal(err)
	}
	wantRead()
	if err := errors.Join(r.Pause(t.Context(), "api-1"), r.Resume(t.Context(), "api-1")); err != nil {
		t.Errorf("started again: %v", err)
	}
	if a := w.pod("api-1").Spec.Affinity; a == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0] != "node1" {
		t.Errorf("it may be started again where no agent is: %+v", a)
	}
	if err := r.Down(context.Background()); err != nil {
		t.Error(err)
	}
	if left := w.left(); len(left) > 0 {
		t.Errorf("there is left: %q", left)
	}
	if n := serving.Load(); n != 0 {
		t.Errorf("%d agents still run", n)
	}
}

// Where no agents are to be had, the run goes on with metrics alone and says so in one sentence.
func TestAgentsThatAreRefused(t *testing.T) {
	t.Parallel()
	refusing := func(why string) func(*world) {
		return func(w *world) {
			w.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
				pod := a.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
				if pod.Labels[agentsLabel] == "" {
					return false, nil, nil
				}
				return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), pod.Name, errors.New(why))
			})
		}
	}
	for name, c := range map[string]struct {
		becomes corev1.PodStatus
		prepare func(*world)
		want    string
	}{
		"pod security": {
			prepare: refusing(`violates PodSecurity "baseline:latest": host namespaces (hostPID=true), hostPath volumes (volume "cgroup")`),
			want:    `the cluster's pod security refuses it ("baseline:latest": host namespaces (hostPID=true), hostPath volumes (volume "cgroup")); it needs the level privileged`,
		},
		"quota": {
			prepare: refusing(`exceeded quota: few, requested: pods=1`),
			want:    "a quota of the name space refuses it (few, requested: pods=1)",
		},
		"rights": {
			prepare: refusing("no"),
			want:    "this user may not make the agents on nodes: no",
		},
		"image":           {becomes: waiting("ErrImageNeverPull", "never"), want: "the image loadstone is not on node node1 and cannot be pulled"},
		"another program": {becomes: exited(1), want: "the pod of the agent on node node1 has ended with status 1"},
		"another version": {becomes: running(), prepare: func(w *world) {
			w.attachTo = func(context.Context, string, string, streams) error { return errors.New("what is there says no word") }
		}, want: "the connection to the agent on node node1 has ended: what is there says no word"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]corev1.PodStatus{"": c.becomes})
			w.agent = ""
			if c.prepare != nil {
				c.prepare(w)
			}
			r, err := w.up(t.Context(), system(t, `services: {api: {image: shop}}`))
			if err != nil {
				t.Fatal(err)
			}
			want := "what pods use cannot be seen from here, so no bottleneck is named by its CPU: node node1 is another machine than this one; and no agent there tells it (LOADSTONE_KUBE_AGENT names its image): " + c.want
			if said := r.Warnings(); len(said) != 1 || !strings.HasPrefix(said[0], want) || strings.Contains(said[0], "\n") {
				t.Errorf("got %q, want %q", said, want)
			}
			if hosts := r.Hosts(); len(hosts) > 0 {
				t.Errorf("got hosts %v", hosts)
			}
			pods, err := w.CoreV1().Pods(r.(*Running).name).List(t.Context(), metav1.ListOptions{LabelSelector: agentsLabel})
			if err != nil || len(pods.Items) > 0 {
				t.Errorf("there is left: %v, %v", pods.Items, err)
			}
			if err := r.Down(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}

// What is counted on several nodes is one sample of one moment, in which nothing that an instance has used is
// lost when it goes to another node, and a machine counts once.
func TestSamplesOfNodesAreOne(t *testing.T) {
	t.Parallel()
	began := time.Now()
	at := func(ms int, total time.Duration, all ...host.Instance) *host.Sample {
		s := &host.Sample{At: began.Add(time.Duration(ms) * time.Millisecond), Instances: all, MachineTotal: total, MachineBusy: total / 2, Self: time.Second}
		if ms == 0 || ms == 300 {
			s.Slow = &host.Slow{Instances: make([]host.SlowInstance, len(all)), ListenOverflows: 1}
			for i := range all {
				s.Slow.Instances[i].RunDelay = all[i].CPU
			}
		}
		return s
	}
	used := func(name string, cpu time.Duration, memory uint64) host.Instance {
		return host.Instance{Name: name, CPU: cpu, Memory: memory}
	}
	node := func(machine bool, samples ...*host.Sample) *reading {
		c := make(chan *host.Sample, len(samples))
		for _, s := range samples {
			c <- s
		}
		close(c)
		return &reading{samples: c, names: []string{"api-1", "api-2", "db-1"}, machine: machine, lives: map[string]host.Instance{}, slow: map[string]host.SlowInstance{}}
	}
	all := []*reading{
		node(true, at(0, 10, used("api-1", 100, 5), used("db-1", 10, 1)), at(100, 30, used("api-1", 300, 6), used("db-1", 30, 1)), at(300, 50, used("db-1", 50, 2))),
		node(false, at(0, 10, used("api-2", 0, 7)), at(200, 90, used("api-2", 200, 7)), at(400, 90, used("api-2", 400, 7), used("api-1", 40, 3))),
	}
	var got []*host.Sample
	for all[0].next() {
		s, ok := together(all)
		if !ok {
			t.Fatal("a node has ended")
		}
		got = append(got, s)
	}
	for i, want := range [][]host.Instance{
		{used("api-1", 100, 5), used("api-2", 0, 7), used("db-1", 10, 1)},
		{used("api-1", 300, 6), used("api-2", 100, 7), used("db-1", 30, 1)},
		{used("api-1", 320, 0), used("api-2", 300, 7), used("db-1", 50, 2)}, // half-way, it was not on the other yet
	} {
		if !slices.Equal(got[i].Instances, want) {
			t.Errorf("sample %d: got %+v, want %+v", i, got[i].Instances, want)
		}
	}
	if last := got[2]; last.MachineTotal != 50 || last.MachineBusy != 25 || last.Self != 2*time.Second || last.Slow == nil || last.Slow.Instances[1].RunDelay != 0 || last.Slow.Instances[2].RunDelay != 50 || last.Slow.ListenOverflows != 2 || got[1].Slow != nil {
		t.Errorf("got %+v with %+v", last, last.Slow)
	}
	ended := []*reading{node(true, at(0, 10), at(100, 20)), node(false, at(50, 10))}
	for _, want := range []bool{true, false} {
		if !ended[0].next() {
			t.Fatal("the first node has ended")
		}
		if _, ok := together(ended); ok != want {
			t.Errorf("got %v of a node that ends, want %v", ok, want)
		}
	}
}

// Agents that are asked for pause what is on other machines; those that may be had are not relied on.
func TestAgentsThatAreAskedForPause(t *testing.T) {
	t.Parallel()
	for image, want := range map[string]string{
		"registry.example/loadstone:1": "",
		"":                             "or name the image of an agent that does it in LOADSTONE_KUBE_AGENT",
		noAgents:                       "or name the image of an agent that does it in LOADSTONE_KUBE_AGENT",
	} {
		d := Driver{Settings: driver.Settings{ProcRoot: "/proc", Env: map[string]string{AgentVariable: image}}, cluster: &cluster{Interface: newWorld(t, nil)}}
		err := d.CheckFault(t.Context(), system(t, `services: {web: {image: x}}`), driver.Fault{Service: "web", Action: "pause"})
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasSuffix(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", image, err, want)
		}
	}
}
