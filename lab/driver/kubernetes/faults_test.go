package kubernetes

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"

	"loadstone/lab/driver"
	"loadstone/lab/host/cgroup"
)

// The nodes are other machines, where nothing has a signal from here.
func TestFaultsInPodsOfAnotherMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]corev1.PodStatus{"seed": exited(0)})
	up, err := w.up(t.Context(), system(t, shop))
	if err != nil {
		t.Fatal(err)
	}
	r := up.(*Running)
	deletion := func() metav1.DeleteOptions {
		t.Helper()
		for _, a := range slices.Backward(w.Actions()) {
			if d, ok := a.(clienttesting.DeleteActionImpl); ok && d.GetResource().Resource == "pods" {
				return d.DeleteOptions
			}
		}
		t.Fatal("no pod was deleted")
		return metav1.DeleteOptions{}
	}
	f := func(end func(context.Context, string) error, instance string, grace int64) {
		t.Helper()
		before := w.pod(instance).UID
		if err := end(t.Context(), instance); err != nil {
			t.Fatal(err)
		}
		if d := deletion(); d.GracePeriodSeconds == nil || *d.GracePeriodSeconds != grace {
			t.Errorf("%s was deleted with %+v, want a grace of %d s", instance, d, grace)
		}
		if launched, err := r.Start(t.Context(), instance); err != nil || launched.IsZero() {
			t.Fatalf("launched %v, %v", launched, err)
		}
		if after := w.pod(instance).UID; after == before {
			t.Errorf("%s is the same pod as before", instance)
		}
	}
	f(r.Kill, "api-1", 1)
	f(r.Stop, "api-2", 10)
	if err := r.Pause(t.Context(), "db-1"); err == nil || !strings.Contains(err.Error(), "pause db-1: its processes cannot be seen from here") {
		t.Errorf("got %v", err)
	}
	said := strings.Join(r.Warnings(), "\n")
	if !strings.Contains(said, "api-1 was not killed at once, which cannot be done from here: its pod was deleted") || strings.Contains(said, "api-2 was not killed") {
		t.Errorf("got warnings\n%s", said)
	}
	if err := r.Down(context.Background()); err != nil {
		t.Error(err)
	}
	if err, open := <-r.Failed(); open {
		t.Errorf("an end that was asked for was reported: %v", err)
	}
	if left := w.left(); len(left) > 0 {
		t.Errorf("there is left: %q", left)
	}
}

// Nodes are named a, b and so on, and are on another machine, on this one, or, if it is empty, take no pods.
const other, here = "another machine's", "this one's"

// driverOn is a driver whose cluster has such nodes, run by a user of whom the kernel says this.
func driverOn(t *testing.T, nodes []string, status string) Driver {
	t.Helper()
	w := newWorld(t, nil)
	if err := w.CoreV1().Nodes().Delete(t.Context(), "node1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for i, boot := range nodes {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: string(rune('a' + i))}}
		node.Spec.Unschedulable = boot == ""
		node.Status.NodeInfo.BootID = boot
		if _, err := w.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	proc := t.TempDir()
	for file, text := range map[string]string{"sys/kernel/random/boot_id": here + "\n", "self/status": "Name:\tlab\n" + status} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(proc, file)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(proc, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Driver{Settings: driver.Settings{ProcRoot: proc}, cluster: &cluster{Interface: w}}
}

// What cannot be done is known before anything starts.
func TestFaultsThatCannotBeCarriedOut(t *testing.T) {
	t.Parallel()
	const root, user = "CapEff:\t000001ffffffffff\n", "CapEff:\t0000000000000000\n"
	f := func(nodes []string, status, service, action string, renewed bool, want string) {
		t.Helper()
		d := driverOn(t, nodes, status)
		s := system(t, `services: {web: {image: x}, node: {image: x, network_mode: host}}`)
		var command []string
		if program, word, ok := strings.Cut(action, " "); ok {
			action, command = "exec", []string{program, word}
		}
		err := d.CheckFault(t.Context(), s, driver.Fault{Service: service, Action: action, Command: command, Renewed: renewed})
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s of %s: got %v, want %q", action, service, err, want)
		}
	}
	f([]string{here, other}, root, "web", "pause", false, "instances of web may be on node b, which is another machine than this one, and only what is on this one can be paused; write stop")
	f([]string{here, here, ""}, root, "web", "pause", false, "")
	f([]string{here}, user, "web", "pause", false, "this user may not pause what belongs to others; run as root, or write stop")
	f([]string{other}, user, "web", "kill", false, "")
	f([]string{other}, user, "web", "stop", false, "")
	f([]string{other}, user, "web", "echo ${NAME:-web}", false, "")
	f([]string{other}, user, "web", "echo ${", false, `fill in "${"`)
	f([]string{here}, root, "web", "kill", true, "what is started again has another address in Kubernetes, which the load does not reach, and no other instance of web is left; give it one that no fault ends, make a service in front of it the entry, or remove for")
	f([]string{here}, root, "node", "kill", true, "")
}

// What is scaled by its CPU has to be seen.
func TestWhatIsScaledIsOnThisMachine(t *testing.T) {
	t.Parallel()
	f := func(nodes []string, agents, compose, want string) {
		t.Helper()
		d := driverOn(t, nodes, "")
		d.Env = map[string]string{AgentVariable: agents}
		err := d.Check(t.Context(), system(t, compose))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("nodes %q: got %v, want %q", nodes, err, want)
		}
	}
	const fixed = `services: {web: {image: x, deploy: {resources: {limits: {cpus: "1"}}}}}`
	const scaled = `services: {web: {image: x, deploy: {resources: {limits: {cpus: "1"}}}, x-autoscale: {maxReplicas: 2, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}}]}}}`
	f([]string{here, ""}, noAgents, scaled, "")
	f([]string{other}, noAgents, fixed, "")
	f([]string{here, other}, "", scaled, "")
	f([]string{here, other}, noAgents, scaled, "service web: its instances may be on node b, which is another machine than this one, and without agents only what is on this one is scaled by its CPU; remove LOADSTONE_KUBE_AGENT=none, or write deploy.replicas in place of x-autoscale")
}

// groupOf is a control group as files, which has one process.
func groupOf(t *testing.T, pid int) *cgroup.Group {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"cgroup.procs": strconv.Itoa(pid) + "\n", "cpu.stat": "usage_usec 1\n", "memory.current": "4096\n", "memory.events": "oom_kill 0\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	group, err := cgroup.Open(cgroup.Paths{Version: 2, CPU: dir, CPUAcct: dir, Memory: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = group.Close() }) // read only
	return group
}

// A cluster may be lost while an instance is killed. It got SIGKILL where it is seen from here, and
// nothing at all elsewhere: no SIGTERM is told of.
func TestAKillWhoseEndIsNotSeenTellsOfNoOtherSignal(t *testing.T) {
	t.Parallel()
	for name, here := range map[string]bool{"on this machine": true, "on another": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &Running{watched: make(chan struct{})}
			r.config.ProcRoot = "/proc"
			close(r.watched)
			in := &instance{run: r, changed: make(chan struct{})}
			in.Name = "api-1"
			process := exec.CommandContext(t.Context(), "sleep", "600")
			var place driver.Place
			if here {
				if err := process.Start(); err != nil {
					t.Fatal(err)
				}
				place.Group = groupOf(t, process.Process.Pid)
			}
			l := driver.NewLife()
			in.Begin(l, place, time.Time{})
			if err := in.Kill(t.Context(), l); err != nil {
				t.Fatal(err)
			}
			if said := r.Warnings(); len(said) > 0 {
				t.Errorf("got warnings %q", said)
			}
			if !here {
				return
			}
			if err := process.Wait(); err == nil || err.Error() != "signal: killed" {
				t.Errorf("the process ended with %v", err)
			}
		})
	}
}
